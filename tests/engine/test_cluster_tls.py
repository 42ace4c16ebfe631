"""The executor on Dask over TLS: certificates of Dask's own configuration."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from flacheck.engine.cluster import DaskExecutor
from flacheck.errors import IncompleteError
from tests import dask_cluster

pytest.importorskip("distributed")
pytestmark = pytest.mark.slow


def tls_variables(folder: Path, authority: trustme.CA) -> dict[str, str]:
    """Return Dask's variables for a certificate of the authority, and require encryption."""
    bundle, pair = folder / "ca.pem", folder / "node.pem"
    authority.cert_pem.write_to_path(str(bundle))
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(pair))
    variables = {
        "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "True",
        "DASK_DISTRIBUTED__COMM__TLS__CA_FILE": str(bundle),
    }
    for role in ("SCHEDULER", "WORKER", "CLIENT"):
        for kind in ("CERT", "KEY"):
            variables[f"DASK_DISTRIBUTED__COMM__TLS__{role}__{kind}"] = str(pair)
    return variables


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """A scheduler and a worker that require certificates: the address, and Dask's variables."""
    variables = tls_variables(tmp_path, trustme.CA())
    with dask_cluster.serving(tmp_path, "tls", variables) as (address, _):
        yield address, variables


def scan(address: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    words = ["scan", "quick", "--kernel", "retention.chunk_fwd_o", "--target", "sm90"]
    words += ["--executor", f"dask:{address}", "--store", str(folder), "--format", "json"]
    return subprocess.run(
        [sys.executable, "-m", "flacheck", *words],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
    )


def test_a_scan_uses_the_certificates_of_dask_s_configuration(
    cluster: tuple[str, dict[str, str]], tmp_path: Path
) -> None:
    """A scan without the certificates ends with exit 3 and names the address."""
    address, variables = cluster
    assert address.startswith("tls://")
    ran = scan(address, tmp_path / "with", **variables)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["summary"]["compiles"] >= 1
    with pytest.raises(IncompleteError, match=f"no Dask scheduler answers at {address}"):
        DaskExecutor(address, 1, lambda task: 1.0)
