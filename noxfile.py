"""What CI does, by session: `nox -s lint`, `nox -s tests-3.12`, `nox -s docs`."""

import nox

nox.options.sessions = ["lint", "tests", "docs"]


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and types."""
    session.install("-e", ".[test,lint]")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")


@nox.session(python=["3.10", "3.11", "3.12", "3.13", "3.14"])
def tests(session: nox.Session) -> None:
    """Run the tests that download nothing."""
    session.install("-e", ".[test]")
    session.run("python", "-m", "pytest", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the site with warnings as errors; check its links and commands."""
    session.install("-e", ".[test,docs]")
    session.run("python", "-m", "pytest", "tests/test_documents.py")
    session.run("zensical", "build", "--strict")
