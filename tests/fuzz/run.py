"""`make fuzz`: each target of `targets.py` for some seconds, its bytes chosen by atheris.

python tests/fuzz/run.py [--seconds 60] [TARGET …]

What a target was given when it failed is left in build/fuzz; `python tests/fuzz/run.py TARGET --again FILE` gives it
the same once more. A target that takes half a minute for one input, or two gigabytes of memory, has failed too.
"""

import argparse
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_FOUND = _ROOT / "build" / "fuzz"
_INPUT_SECONDS_MAX = 30
_MEMORY_MB_MAX = 2048


def _fuzz(target: str, seconds: int) -> None:
    """Fuzz one target; atheris ends the process."""
    import atheris

    with atheris.instrument_imports(include=["cdc_materializer"]):
        from tests.fuzz.seeds import write
        from tests.fuzz.targets import TARGETS

    corpus = _FOUND / target
    write(corpus)
    limits = [f"-max_total_time={seconds}", f"-timeout={_INPUT_SECONDS_MAX}", f"-rss_limit_mb={_MEMORY_MB_MAX}"]
    places = [f"-artifact_prefix={_FOUND}/{target}-", "-max_len=65536", str(corpus)]
    atheris.Setup([target, *limits, *places], TARGETS[target])
    atheris.Fuzz()


def main() -> int:
    """Run the targets one after the other, each in a process of its own; 1 where one has failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--again", type=Path, help="one input, without atheris")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.here:
        # Before anything of the package is imported: atheris watches what is imported under its eyes.
        _fuzz(asked.targets[0], asked.seconds)
    from tests.fuzz.targets import TARGETS

    wanted = asked.targets or list(TARGETS)
    if not set(wanted) <= set(TARGETS):
        parser.error(f"the targets are {', '.join(TARGETS)}")
    if asked.again is not None:
        for name in wanted:
            TARGETS[name](asked.again.read_bytes())
        return 0
    failed = []
    for name in wanted:
        sys.stdout.write(f"{name}: {asked.seconds} s\n")
        sys.stdout.flush()
        command = [sys.executable, __file__, "--here", "--seconds", str(asked.seconds), name]
        if subprocess.run(command, cwd=_ROOT, check=False).returncode != 0:
            failed.append(name)
    sys.stdout.write(f"{len(wanted) - len(failed)} passed, {len(failed)} failed\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.path.insert(0, str(_ROOT))
    raise SystemExit(main())
