"""The files that a unit may read: no way of writing an include reaches another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from flacheck.guest.workers.cuda_includes import check_includes
from flacheck.guest.workers.cuda_units import UnitRefused


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Provide a project beside a file that is not part of it."""
    (tmp_path / "secret.h").write_text("int key = 42;\n")
    root = tmp_path / "project"
    (root / "include").mkdir(parents=True)
    (root / "include" / "own.h").write_text("#pragma once\n")
    return root


def check(root: Path, text: str) -> None:
    """Check a unit as the worker does: the project is readable, the toolkit's headers are
    skipped."""
    (root / "unit.cu").write_text(text)
    include = str(root / "include")
    check_includes(str(root / "unit.cu"), [include], [str(root), include], [str(root / "toolkit")])


@pytest.mark.parametrize(
    "text",
    [
        '#include "/etc/passwd"',
        "#include </etc/passwd>",
        '#include "../secret.h"',
        '#  include   "../secret.h"',
        '#/* so */include/* and so */"../secret.h"',
        '/* a comment\n   of two lines */ #include "../secret.h"',
        '# /* a comment\n   of two lines */ include "../secret.h"',
        '#inc\\\nlude "../secret.h"',
        '#inc\\   \nlude "../secret.h"',
        '%:include "../secret.h"',
        '??=include "../secret.h"',
        '#inc??/\nlude "../secret.h"',
        '#include_next "../secret.h"',
        '#import "../secret.h"',
        '#embed "../secret.h"',
        '#if 0\n#include "../secret.h"\n#endif',
        '\ufeff#include "../secret.h"',
        'const char *s = "/*";\n#include "../secret.h"\n// */',
    ],
)
def test_no_way_of_writing_it_leads_out(project: Path, text: str) -> None:
    """Spaces, comments, spliced lines, digraphs and trigraphs do not hide an include."""
    with pytest.raises(UnitRefused, match="in none of its folders"):
        check(project, f"{text}\n")


def test_what_a_header_of_the_project_includes_counts(project: Path) -> None:
    """A header of the project is searched like the unit."""
    (project / "include" / "own.h").write_text('#include "../../secret.h"\n')
    with pytest.raises(UnitRefused, match="secret"):
        check(project, '#include "own.h"\n')


def test_a_link_is_followed_before_it_is_judged(project: Path) -> None:
    """A name within the project may lead out of it."""
    (project / "include" / "link.h").symlink_to(project.parent / "secret.h")
    with pytest.raises(UnitRefused, match=r"link\.h"):
        check(project, "#include <link.h>\n")


def test_a_macro_names_a_file_that_nobody_knows(project: Path) -> None:
    """Only the preprocessor could resolve such a macro."""
    with pytest.raises(UnitRefused, match="HEADER, a macro"):
        check(project, '#define HEADER "/etc/passwd"\n#include HEADER\n')


def test_a_file_in_another_encoding_is_refused(project: Path) -> None:
    """The compiler might find an include that the check cannot read."""
    (project / "include" / "own.h").write_bytes('#include "/etc/passwd"\n'.encode("utf-16"))
    with pytest.raises(UnitRefused, match="not text"):
        check(project, "#include <own.h>\n")


@pytest.mark.parametrize(
    "text",
    [
        "#include <own.h>\n#include <nowhere.h>\n",
        'const char *s = "#include <x>";\n// #include whatever\n',
        '#include "unit.cu"\n',
        "#define include\n",
    ],
)
def test_what_stays_in_the_project_is_let_through(project: Path, text: str) -> None:
    """A missing header is left to the compiler, and words in a comment are not includes."""
    check(project, text)


def test_headers_of_the_toolkit_are_not_looked_into(project: Path) -> None:
    """The toolkit's headers include by macros, and their content is that of the wheels."""
    (project / "toolkit").mkdir()
    (project / "toolkit" / "cuda.h").write_text("#include WHATEVER\n")
    check(project, '#include "toolkit/cuda.h"\n')
    # The same words anywhere else are refused.
    (project / "include" / "own.h").write_text("#include WHATEVER\n")
    with pytest.raises(UnitRefused, match="WHATEVER, a macro"):
        check(project, '#include "own.h"\n')
