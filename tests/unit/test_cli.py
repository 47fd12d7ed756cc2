"""The command line: what is written where, and what each way to end says and returns."""

import errno
import json
import logging
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
import yaml

import cdc_materializer
from cdc_materializer.catalog.local_table import SnapshotLine
from cdc_materializer.cli import main
from cdc_materializer.cli.following import Following
from cdc_materializer.cli.output import Output
from cdc_materializer.errors import EXIT_BLOCKED, EXIT_BUG, EXIT_DONE, EXIT_SOURCE, EXIT_USAGE
from cdc_materializer.explain import explain
from cdc_materializer.explain.explain import Asked
from cdc_materializer.names import TableName
from cdc_materializer.report.models import ErrorInfo, RunReport, TableRun
from cdc_materializer.report.row_models import WhyReport
from cdc_materializer.run.run import RunOptions
from tests.demo_run import ROOT
from tests.unit.contracts import HEAD
from tests.unit.lakes import open_writer

if TYPE_CHECKING:
    from tests.unit.conftest import Fresh

_HEAVY = ("pyspark", "great_expectations", "pyiceberg", "pandas")
_CONTRACT = ROOT / "cdc_materializer" / "demo_data" / "contracts" / "payments.yaml"


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder with a pipeline of one table that was never run."""
    (tmp_path / "recorded").mkdir()
    (tmp_path / "recorded" / "shop.public.orders.jsonl").touch()
    path = tmp_path / "pipeline.yaml"
    path.write_text(
        "name: shop\nsource: {files: recorded}\ntables: [{topic: shop.public.orders, mirror: shop.orders}]\n",
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)
    return path


@pytest.mark.parametrize("words", [[], ["--values"]])
def test_why_shows_values_where_somebody_asks_for_them(
    pipeline: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """And not otherwise: its output goes into tickets."""
    asked: list[Asked] = []

    def explained(_config: object, table: str, wanted: Asked) -> WhyReport:
        asked.append(wanted)
        return WhyReport(pipeline="shop", table=table, topic="t", key=None, summary=[], total=0, limit=1, messages=[])

    monkeypatch.setattr(explain, "why", explained)

    assert main(["why", "shop.orders", "--key", "1", "-c", str(pipeline), *words]) == EXIT_DONE
    assert [one.values for one in asked] == [bool(words)]


# --- help and names -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["report", "--json"],
        ["report", "--format", "html"],
        ["quarantine", "list", "--json"],
        ["run", "--help"],
        ["contract", "lint"],
        ["contract", "lint", "-c", "with_contract.yaml"],
        ["init", "--files", "recorded", "-c", "new.yaml"],
    ],
)
def test_commands_that_need_no_data_import_nothing_heavy(pipeline: Path, fresh: "Fresh", arguments: list[str]) -> None:
    """They answer at once because Spark, Great Expectations, PyIceberg and pandas stay out."""
    text = pipeline.read_text(encoding="utf-8").replace("mirror: shop.orders", f"contract: {_CONTRACT}")
    (pipeline.parent / "with_contract.yaml").write_text(text, encoding="utf-8")
    code = (
        "import sys; from cdc_materializer.cli import main; main(sys.argv[1:]);"
        f"sys.exit(str([name for name in {_HEAVY} if name in sys.modules]))"
    )
    ended = fresh.run(code, *arguments, folder=pipeline.parent)

    assert ended.err.strip() == "[]"


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """With its name, on one line."""
    assert main(["--version"]) == EXIT_DONE
    assert capsys.readouterr().out == f"cdcm {cdc_materializer.__version__}\n"


def test_without_a_command_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """And it is a usage error, as nothing was done."""
    assert main([]) == EXIT_USAGE
    assert "quarantine" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["maintain", "--table", "shop.order"], "Did you mean shop.orders?"),
        (["why", "shop.orders", "--key", "1"], "There is no mirror shop.orders yet."),
        (["why", "shop.orders"], "One of them says which row: --key, or --raw-offset."),
        (["as-of", "shop.orders"], "One of them says when: --position, or --time."),
        (["as-of", "shop.orders", "--time", "yesterday"], "yesterday is no time."),
        (["as-of", "shop.orders", "--time", "0001-01-01T00:00+05:00"], "0001-01-01T00:00+05:00 is no time."),
        (["as-of", "shop.orders", "--time", "2026-11-21", "--limit", str(2**31)], "Invalid value for '--limit'"),
        (["as-of", "shop.orders", "--position", "1"], "There is no mirror shop.orders yet."),
        (["quarantine", "release", "shop.orders", "9"], "9 is no place of a message."),
        (["quarantine", "release", "shop.orders", "--code", "CONTRAKT"], "Did you mean CONTRACT?"),
        (["quarantine", "show", "shop.orders"], "Nothing says which violation."),
        (["quarantine", "show", "shop.orders", "9"], "9 is no place of a message."),
        (["quarantine", "show", "shop.orders", "0/9"], "Quarantine of shop.orders has nothing of the message 0/9."),
        (["quarantine", "show", "shop.order", "0/9"], "Did you mean shop.orders?"),
        (["report", "--as-of", "yesterday"], "yesterday is neither a time nor a batch that a table still knows."),
        (["report", "--as-of", "9999-12-31T23:00-05:00"], "9999-12-31T23:00-05:00 is neither a time nor a batch"),
        (["report", "--as-of", "2999-01-01"], "That time is still to come."),
        (["contract", "test"], "shop.orders has no contract to try."),
        (["contract", "test", "--since", "yesterday"], "yesterday is no time."),
        (["contract", "test", "--since", "0001-01-01T00:00+05:00"], "0001-01-01T00:00+05:00 is no time."),
        (["query", "SELECT 1", "--limit", str(2**31)], "Invalid value for '--limit'"),
        (["why", "shop.orders", "--key", "1", "--limit", str(2**31)], "Invalid value for '--limit'"),
        (["why", "shop.orders", "--raw-offset", "0:99999999999999999999"], "is no place of a message."),
        (["why", "shop.orders", "--raw-offset", "9"], "9 is no place of a message."),
        (["replay", "shop.orders", "--from", "yesterday"], "`--from yesterday` says no place to begin at."),
        (["replay", "shop.orders", "--rollback", "--from", "kafka"], "`--rollback` and `--forget` go with none of"),
        (["replay", "shop.orders", "--rollback", "--publish"], "`--rollback` and `--forget` go with none of"),
        (["replay", "shop.orders", "--forget", "--for", "1h"], "`--rollback` and `--forget` go with none of"),
        (["replay", "shop.orders", "--for", "0m"], "`--for 0m` says no length of time."),
        (["run", "--for", "10"], "`--for 10` says no length of time. Write it like `30s`, `10m` or `2h`."),
        (["run", "--plan", "--for", "10m"], "`--plan` goes with neither `--follow` nor `--for`."),
        (["verify", "--for", "soon"], "`--for soon` says no length of time."),
        (["replay", "shop.order"], "There is no table shop.order in pipeline.yaml. Did you mean shop.orders?"),
        (["replay"], "Missing argument 'TABLE...'"),
        (["verify", "--ledger", "--repair"], "`--ledger` tells no rows"),
        (["verify", "--ledger", "--source"], "`--source` goes with neither"),
        (["reprot"], "`cdcm` has no command `reprot`. Did you mean `cdcm report`?"),
        (["run", "--folow"], "No such option: --folow"),
        (["quarantine", "list", "--limit", "0"], "Invalid value for '--limit'"),
        (["quarantine", "list", "--code", "CONTRAKT"], "Did you mean CONTRACT?"),
    ],
)
def test_what_cannot_be_followed_is_one_sentence(
    pipeline: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    """With exit code 2, on standard error, and with what to do."""
    assert pipeline.exists()
    assert main(arguments) == EXIT_USAGE
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("error: ")
    assert said in shown.err
    assert len(shown.err.splitlines()) == 1


def test_a_failed_command_prints_one_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --json, and the sentence for people beside it on standard error."""
    missing = tmp_path / "none.yaml"

    assert main(["run", "-c", str(missing), "--json"]) == EXIT_USAGE
    shown = capsys.readouterr()
    error = json.loads(shown.out)["error"]
    assert error["code"] == "ConfigError"
    assert "none.yaml" in error["message"]
    assert shown.err == f"error: {error['message']}\n"


def test_arguments_that_are_wrong_are_told_as_a_document_too(capsys: pytest.CaptureFixture[str]) -> None:
    """A program that reads the output gets what it asked for, whatever else is wrong."""
    assert main(["replay", "--json"]) == EXIT_USAGE
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "UsageError"


_STOPPED = ErrorInfo(code="OFFSET_GAP", message="It is gone. Accept it with `cdcm adopt shop.orders`, or leave it.")


@pytest.mark.parametrize(
    ("config", "option"),
    [
        ("pipeline.yaml", ""),
        ("./pipeline.yaml", ""),
        ("other/of us.yaml", " -c 'other/of us.yaml'"),
    ],
)
def test_commands_to_go_on_with_name_the_file(
    pipeline: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], config: str, option: str
) -> None:
    """Where it is not the one that is looked for: in errors, and in what views and documents have of sentences."""
    path = pipeline.parent / config
    path.parent.mkdir(exist_ok=True)
    path.write_text(pipeline.read_text(encoding="utf-8").replace("recorded", str(pipeline.parent / "recorded")))
    monkeypatch.setattr(
        "cdc_materializer.run.run.run_once", lambda *_, **__: _report(error=_STOPPED, violations={"CONTRACT": 1})
    )
    said = f"Accept it with `cdcm adopt shop.orders{option}`, or leave it."

    assert main(["run", "-c", config]) == EXIT_DONE
    view = capsys.readouterr().out
    assert said in " ".join(view.split())
    assert f"See `cdcm report{option}`." in view
    assert main(["run", "--json", "-c", config]) == EXIT_DONE
    assert said in json.loads(capsys.readouterr().out)["tables"][0]["error"]["message"]
    logging.getLogger("cdc_materializer").warning("Compare with `cdcm verify`.")
    assert f"Compare with `cdcm verify{option}`." in capsys.readouterr().err
    assert main(["why", "shop.orders", "--key", "1", "--json", "-c", config]) == EXIT_USAGE
    shown = capsys.readouterr()
    assert json.loads(shown.out)["error"]["message"].endswith(f"`cdcm run{option}` makes it.")
    assert shown.err.endswith(f"`cdcm run{option}` makes it.\n")
    assert main(["why", "--limit", "x", "-c", config]) == EXIT_USAGE
    assert "See `cdcm why --help`." in capsys.readouterr().err


def test_an_unknown_key_of_the_file_names_the_nearest(pipeline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As the configuration says it."""
    pipeline.write_text(pipeline.read_text(encoding="utf-8").replace("mirror:", "miror:"), encoding="utf-8")

    assert main(["report"]) == EXIT_USAGE
    assert "Did you mean `mirror`?" in capsys.readouterr().err


# --- bugs -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def broken(pipeline: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pipeline whose run meets a bug; the error's text holds a value and a password."""

    def run_once(*_: object, **__: object) -> None:
        message = "cannot cast 'Ada Lovelace', password=hunter2-hunter2"
        raise KeyError(message)

    monkeypatch.setattr("cdc_materializer.run.run.run_once", run_once)
    return pipeline


def test_a_bug_is_told_without_trace_and_without_values(broken: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the error itself says may hold a row's values."""
    assert broken.exists()
    assert main(["run"]) == EXIT_BUG
    shown = capsys.readouterr()
    assert shown.err.startswith("error: An unexpected KeyError")
    assert "Traceback" not in shown.err
    assert "Ada" not in shown.err


def test_debug_shows_the_trace_without_secrets(broken: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """For whoever asks for it."""
    assert broken.exists()
    assert main(["run", "--debug"]) == EXIT_BUG
    shown = capsys.readouterr()
    assert "Traceback" in shown.err
    assert "hunter2" not in shown.err


# --- run ------------------------------------------------------------------------------------------------------------


def _report(exit_code: int = EXIT_DONE, **values: object) -> RunReport:
    return RunReport(
        pipeline="shop",
        tables=[TableRun.model_validate({"table": "shop.orders", "topic": "t", **values})],
        exit_code=exit_code,
    )


def test_a_run_passes_its_options_and_exit_code_on(
    pipeline: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The document is the report, and the exit code no part of it."""
    asked: list[RunOptions] = []

    def run_once(config: object, options: RunOptions) -> RunReport:
        assert config is not None
        asked.append(options)
        return _report(EXIT_BLOCKED, error=ErrorInfo(code="CONTRACT", message="The contract blocks. Mend it."))

    monkeypatch.setattr("cdc_materializer.run.run.run_once", run_once)

    assert pipeline.exists()
    assert main(["run", "--table", "shop.orders", "-t", "shop.other", "--json"]) == EXIT_BLOCKED
    assert asked[0].tables == ("shop.orders", "shop.other")
    document = json.loads(capsys.readouterr().out)
    assert document["tables"][0]["error"]["code"] == "CONTRACT"
    assert "exit_code" not in document


def test_the_first_signal_lets_the_batch_end(pipeline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run is asked to stop, ends by itself, and that is no failure."""
    before = signal.getsignal(signal.SIGTERM)

    def run_once(config: object, options: RunOptions) -> RunReport:
        assert config is not None
        os.kill(os.getpid(), signal.SIGTERM)
        assert options.stop.wait(10)
        return _report()

    monkeypatch.setattr("cdc_materializer.run.run.run_once", run_once)

    assert pipeline.exists()
    assert main(["run"]) == EXIT_DONE
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_second_signal_ends_at_once(pipeline: Path, fresh: "Fresh", number: signal.Signals) -> None:
    """Even while a batch never ends; shells see which signal it was."""
    # Python looks at a signal that comes just before the main thread goes to sleep only when that wakes again.
    code = (
        "import os, sys, time; from cdc_materializer.run import run; from cdc_materializer.cli import main\n"
        "def ask():\n"
        f"    time.sleep(0.1); os.kill(os.getpid(), {number})\n"
        "def stuck(config, options):\n"
        # What is said of the first one is said by then.
        "    ask(); options.stop.wait(10); time.sleep(0.4); ask(); time.sleep(60)\n"
        "run.run_once = stuck; sys.exit(main(['run']))"
    )
    ended = fresh.run(code, folder=pipeline.parent)

    assert ended.code == 128 + number
    assert "Once more" in ended.err


def test_following_adds_its_rounds_up(
    pipeline: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One document at the end, however many rounds there were."""

    def run_forever(*_: object, **__: object) -> Iterator[RunReport]:
        yield _report(batches=1, read=3, upserted=2, quarantined=1, violations={"CONTRACT": 1}, offsets={"0": 3})
        yield _report(batches=2, read=2, upserted=2, offsets={"0": 5}, mirror_snapshot=9)

    monkeypatch.setattr("cdc_materializer.run.run.run_forever", run_forever)

    assert pipeline.exists()
    assert main(["run", "--follow", "--json"]) == EXIT_DONE
    table = json.loads(capsys.readouterr().out)["tables"][0]
    assert (table["batches"], table["read"], table["upserted"], table["quarantined"]) == (3, 5, 4, 1)
    assert (table["violations"], table["offsets"], table["mirror_snapshot"]) == ({"CONTRACT": 1}, {"0": 5}, 9)


def test_following_for_a_program_tells_failures_as_they_come(
    pipeline: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On standard error, because the document comes only at the end."""

    def run_forever(*_: object, **__: object) -> Iterator[RunReport]:
        yield _report(EXIT_SOURCE, error=ErrorInfo(code="TopicMissing", message="It is not there."))
        yield _report(batches=1, read=1, upserted=1)

    monkeypatch.setattr("cdc_materializer.run.run.run_forever", run_forever)

    assert pipeline.exists()
    assert main(["run", "--follow", "--json"]) == EXIT_DONE
    said = capsys.readouterr()
    assert said.err == "shop.orders: TopicMissing: It is not there.\n"
    assert json.loads(said.out)["tables"][0]["error"] is None


def test_following_tells_each_round_on_one_line(
    pipeline: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A log of what came, that can be read while it goes on."""

    def run_forever(*_: object, **__: object) -> Iterator[RunReport]:
        yield _report(batches=1, read=3, upserted=2, quarantined=1, seconds=0.25)

    monkeypatch.setattr("cdc_materializer.run.run.run_forever", run_forever)

    assert pipeline.exists()
    assert main(["run", "--follow"]) == EXIT_DONE
    assert capsys.readouterr().out == "shop.orders: read 3 in 0.2 s: 2 upserted, 1 quarantined\n"


def test_a_table_that_recovered_is_no_failure() -> None:
    """What counts is how each table ended when it was last worked on."""
    following = Following("shop")
    following.add(_report(EXIT_SOURCE, error=ErrorInfo(code="TopicMissing", message="x")))
    failed = following.exit_code
    following.add(_report(batches=1))

    assert (failed, following.exit_code) == (EXIT_SOURCE, EXIT_DONE)


# --- looking --------------------------------------------------------------------------------------------------------


def test_an_empty_lake_is_reported_as_such(pipeline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before the first run there is nothing to complain about."""
    assert pipeline.exists()
    assert main(["report", "--format", "json"]) == EXIT_DONE
    assert json.loads(capsys.readouterr().out)["tables"][0]["verdict"] == "empty"
    assert main(["quarantine", "list"]) == EXIT_DONE
    assert "Nothing in quarantine" in capsys.readouterr().out


def test_words_beside_a_result_are_shown_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    """A contract names its rules: nothing in an error or a log is markup, an emoji or a terminal's command."""
    output = Output()
    output.note("The rule [b]a\x1b[2J:key:[/i] cannot\n\tbe judged")
    output.draw("shop.orders: :key: [/i]")

    said = capsys.readouterr()
    assert [line.split() for line in said.err.splitlines()] == [
        ["The", "rule", "[b]a\N{REPLACEMENT CHARACTER}[2J:key:[/i]", "cannot"], ["be", "judged"]
    ]  # fmt: skip
    assert said.out == "shop.orders: :key: [/i]\n"


@pytest.mark.parametrize("form", ["terminal", "json", "html", "markdown"])
def test_a_report_goes_to_a_file(pipeline: Path, capsys: pytest.CaptureFixture[str], form: str) -> None:
    """And then not to standard output."""
    assert main(["report", "--format", form, "--output", "out.txt"]) == EXIT_DONE
    assert capsys.readouterr().out == ""
    text = (pipeline.parent / "out.txt").read_text(encoding="utf-8")
    assert "shop.orders" in text
    assert "\x1b" not in text


def test_a_report_that_cannot_be_written_says_so(pipeline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file is named."""
    assert pipeline.exists()
    assert main(["report", "--output", "no/such/folder.txt"]) == EXIT_USAGE
    assert "no/such/folder.txt cannot be written" in capsys.readouterr().err


class _Lake:
    """A catalog with some quarantine rows."""

    def values_of(self, name: TableName, columns: Sequence[str], at: int | None = None) -> list[dict[str, Any]]:
        """Three rows: two open, one not."""
        assert (name.name, at) == ("orders__quarantine", None)
        return [
            dict.fromkeys(columns)
            | {"topic": "t", "partition": 0, "detected_at": datetime(2026, 1, 1, tzinfo=UTC)}
            | row
            for row in (
                {"offset": 1, "code": "CONTRACT", "rule": "limit", "status": "open"},
                {"offset": 2, "code": "KEY_NULL", "status": "open"},
                {"offset": 3, "code": "CONTRACT", "rule": "limit", "status": "superseded"},
            )
        ]

    def lines_of(self, name: TableName) -> Sequence[SnapshotLine]:
        """No batch has been published."""
        assert name.name == "orders"
        return ()


@pytest.mark.parametrize(
    ("filters", "offsets"),
    [
        ([], [2, 1]),
        (["--status", "all"], [3, 2, 1]),
        (["--code", "contract"], [1]),
        (["--rule", "limit", "--status", "superseded"], [3]),
        (["--limit", "1"], [2]),
    ],
)
def test_quarantine_is_listed_by_what_is_asked(
    pipeline: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    filters: list[str],
    offsets: list[int],
) -> None:
    """Open rows unless another state is asked for."""
    monkeypatch.setattr("cdc_materializer.catalog.catalog.open_tables", lambda _: _Lake())

    assert pipeline.exists()
    assert main(["quarantine", "list", "--json", *filters]) == EXIT_DONE
    document: Mapping[str, Any] = json.loads(capsys.readouterr().out)
    assert [row["offset"] for row in document["rows"]] == offsets


def test_contracts_are_checked(pipeline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Named files, or those of the pipeline; what is wrong ends with 2."""
    wrong = pipeline.parent / "wrong.yaml"
    wrong.write_text(_CONTRACT.read_text(encoding="utf-8").replace("max_value", "max_valeu"), encoding="utf-8")

    assert main(["contract", "lint", str(_CONTRACT)]) == EXIT_DONE
    assert "valid" in capsys.readouterr().out
    assert main(["contract", "lint", str(_CONTRACT), str(wrong), "--json"]) == EXIT_USAGE
    document = json.loads(capsys.readouterr().out)
    assert [len(file["problems"]) for file in document["files"]] == [0, 1]
    text = pipeline.read_text(encoding="utf-8").replace("mirror: shop.orders", "contract: wrong.yaml")
    pipeline.write_text(text, encoding="utf-8")
    assert main(["contract", "lint"]) == EXIT_USAGE
    capsys.readouterr()
    assert main(["report", "--json"]) == EXIT_DONE
    (table,) = json.loads(capsys.readouterr().out)["tables"]
    assert table["contract"] is None
    assert table["contract_error"].startswith("Contract wrong.yaml:")


def test_a_report_says_that_hashes_have_no_key_and_needs_none_itself(
    pipeline: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever reads reports is not to have the key: that its file is not here stops no table."""
    contract = _CONTRACT.read_text(encoding="utf-8")
    hashed = pipeline.parent / "hashed.yaml"
    document = yaml.safe_load(contract)
    column = next(one for one in document["schema"][0]["properties"] if not one.get("primaryKey"))
    column["customProperties"] = [{"property": "mask", "value": "hash"}]
    column.pop("quality", None)
    hashed.write_text(yaml.safe_dump(document), encoding="utf-8")
    text = pipeline.read_text(encoding="utf-8").replace("mirror: shop.orders", "contract: hashed.yaml")

    told, linted = [], []
    for masks in ("", "masks: {key_file: elsewhere.key}\n"):
        pipeline.write_text(f"{text}\n{masks}", encoding="utf-8")
        assert main(["report", "--json"]) == EXIT_DONE
        (table,) = json.loads(capsys.readouterr().out)["tables"]
        told.append((table["verdict"], table["contract_error"]))
        assert main(["contract", "lint", "--json"]) == (EXIT_DONE if masks else EXIT_USAGE)
        (file,) = json.loads(capsys.readouterr().out)["files"]
        linted.append([(problem["message"], problem["line"] is not None) for problem in file["problems"]])

    assert linted == [[(f"column {column['name']} is hashed, and pipeline.yaml has no key for that.", True)], []]
    assert told[0][0] == "stopped"
    assert "has no key for that. Add `masks:`" in told[0][1]
    assert told[1][1] is None


def test_a_contract_of_the_pipeline_is_held_to_its_mirror(pipeline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Once there is a mirror, columns that it lacks and kinds that it has otherwise are told with file and line."""
    contract = pipeline.parent / "orders.yaml"
    contract.write_text(HEAD + "      - {name: amonut, physicalType: int}\n      - {name: day, physicalType: text}\n")
    text = pipeline.read_text(encoding="utf-8").replace("mirror: shop.orders", "contract: orders.yaml")
    pipeline.write_text(text, encoding="utf-8")

    assert main(["contract", "lint"]) == EXIT_DONE
    columns = [
        ("id", pa.int64()),
        ("amount", pa.int32()),
        ("day", pa.date32()),
        ("__cdc", pa.struct([("op", pa.string())])),
    ]
    writer = open_writer(pipeline.parent / "lake")
    writer.create_namespace("public")
    writer.create_table("public.orders", pa.schema(columns))
    capsys.readouterr()

    assert main(["contract", "lint", "--json"]) == EXIT_USAGE
    (file,) = json.loads(capsys.readouterr().out)["files"]
    assert [(problem["line"], problem["message"]) for problem in file["problems"]] == [
        (10, "the table has no column amonut."),
        (11, "column day is declared as string, the table has date."),
    ]


def test_a_contract_is_held_to_the_key_that_the_pipeline_names(
    pipeline: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before there is a mirror, too: with a mask on its key none is ever made. By `lint` and by `doctor`."""
    mask = "customProperties: [{property: mask, value: redact}]"
    contract = pipeline.parent / "orders.yaml"
    contract.write_text(HEAD + f"      - {{name: email, physicalType: text, {mask}}}\n", encoding="utf-8")
    text = pipeline.read_text(encoding="utf-8")
    pipeline.write_text(text.replace("mirror: shop.orders", "contract: orders.yaml, key: [email]"), encoding="utf-8")

    assert main(["contract", "lint", "--json"]) == EXIT_USAGE
    (file,) = json.loads(capsys.readouterr().out)["files"]
    assert main(["doctor", "--json"]) == EXIT_USAGE
    (told,) = [check for check in json.loads(capsys.readouterr().out)["checks"] if check["name"] == "contract"]

    (keyed, masked) = file["problems"]
    assert masked["line"] == 10
    assert masked["message"].startswith("column email is of the table's key, which cannot be masked")
    assert keyed["message"] == "the primary key is id, and the table tells rows apart by email together."
    assert "2 problems" in told["message"]


def test_a_catalog_that_cannot_be_asked_is_told_beside_the_contracts(
    pipeline: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They were read by themselves alone; that is no problem of theirs, and the document stays one."""
    text = pipeline.read_text(encoding="utf-8").replace("mirror: shop.orders", f"contract: {_CONTRACT}")
    pipeline.write_text(
        f"{text}\ncatalog: {{type: nessie, uri: 'http://localhost:1', warehouse: w}}\n", encoding="utf-8"
    )

    assert main(["contract", "lint", "--json"]) == EXIT_DONE
    shown = capsys.readouterr()
    assert json.loads(shown.out)["valid"] is True
    assert shown.err.startswith("warning: Not all contracts were held to the columns of their mirrors. The catalog ")


def test_a_contract_that_is_not_there_is_told_without_a_line(
    pipeline: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By `lint` and by `doctor`: a file that nobody wrote has none."""
    text = pipeline.read_text(encoding="utf-8").replace("mirror: shop.orders", "contract: gone.yaml")
    pipeline.write_text(text, encoding="utf-8")

    assert main(["contract", "lint"]) == EXIT_USAGE
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == "gone.yaml  1 problem"
    assert " ".join(lines[1:]).strip().startswith("there is no such file. Mend the path,")
    assert "file" not in lines
    assert main(["doctor", "--json"]) == EXIT_USAGE
    (told,) = [check for check in json.loads(capsys.readouterr().out)["checks"] if check["name"] == "contract"]
    assert told["message"] == "gone.yaml cannot be read: there is no such file."


def test_a_relationship_of_the_pipeline_refers_to_a_table_that_is_there_or_will_be(
    pipeline: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mirror of the pipeline or any table of the catalog; one that only describes may refer to anything."""
    enforced = "customProperties: [{property: action, value: warn}]"
    columns = [
        f"      - {{name: {name}, physicalType: bigint, relationships: [{{to: {to}.id, {enforced}}}]}}\n"
        for name, to in (("a", "Orders"), ("b", "elsewhere.lists"), ("c", "custmers"), ("d", "other.orders"))
    ]
    columns.append(columns[1].replace("name: b", "name: f").replace("lists.id", "lists.ids"))
    columns.append(columns[1].replace("name: b", "name: g").replace("lists.id", "lists.ID"))
    described = "      - {name: e, physicalType: bigint, relationships: [{to: nowhere.id}]}\n"
    (pipeline.parent / "orders.yaml").write_text(HEAD + "".join(columns) + described, encoding="utf-8")
    text = pipeline.read_text(encoding="utf-8").replace("mirror: shop.orders", "contract: orders.yaml")
    pipeline.write_text(text, encoding="utf-8")
    writer = open_writer(pipeline.parent / "lake")
    writer.create_namespace("elsewhere")
    writer.create_table("elsewhere.lists", pa.schema([("id", pa.int64())]))

    assert main(["contract", "lint", "--json"]) == EXIT_USAGE
    (file,) = json.loads(capsys.readouterr().out)["files"]
    assert [(problem["line"], problem["message"]) for problem in file["problems"]] == [
        (12, "c.references refers to public.custmers, and there is no such table."),
        (13, "d.references refers to other.orders, and there is no such table."),
        (14, "f.references refers to elsewhere.lists.ids, and elsewhere.lists has no such column."),
    ]
    assert file["problems"][2]["do"] == "Did you mean id?"
    assert main(["doctor", "--json"]) != EXIT_DONE
    (told,) = [check for check in json.loads(capsys.readouterr().out)["checks"] if check["name"] == "contract"]
    assert told["outcome"] == "problem"
    assert "has 3 problems; line 12: c.references refers to public.custmers" in told["message"]


@pytest.mark.parametrize("asked", [["shop.parcels", "-t", "shop.letters"], ["shop.parcels", "shop.letters"]])
def test_mirrors_to_verify_are_named_with_their_option_or_without(
    pipeline: Path, capsys: pytest.CaptureFixture[str], asked: list[str]
) -> None:
    """As `replay` and `why` take them, and as all other commands do."""
    assert main(["verify", *asked, "-c", str(pipeline), "--json"]) == EXIT_USAGE
    error = json.loads(capsys.readouterr().out)["error"]
    assert "There is no table shop.letters, shop.parcels in pipeline.yaml." in error["message"]


def test_a_database_that_nothing_names_is_told_of_before_spark_starts(
    pipeline: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It takes ten seconds to start."""

    def start(*_: object) -> None:
        pytest.fail("a session was started")

    monkeypatch.setattr("cdc_materializer.proof.proof.session_for", start)

    assert main(["verify", "--source", "-c", str(pipeline), "--json"]) == EXIT_USAGE
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["code"] == "ConfigError"
    assert "Nothing says which database shop.orders has its rows from." in error["message"]


#: What stands for the streams of a process, by number: one that nobody reads, and one that has no room.
_STREAMS = """
def unread(stream):
    reading, writing = os.pipe(); os.dup2(writing, stream); os.close(writing); os.close(reading)
def full(stream):
    os.dup2(os.open("/dev/full", os.O_WRONLY), stream)
"""


@pytest.mark.parametrize(
    ("stream", "arguments", "code"),
    [
        *(("unread(1)", words, EXIT_DONE) for words in (["report"], ["report", "--json"], ["--help"], ["--version"])),
        *(("unread(2)", words, EXIT_DONE) for words in (["report"], ["report", "--json"])),
        *(("unread(1)", words, EXIT_SOURCE) for words in (["run", "-c", "lost.yaml"], ["status", "-c", "lost.yaml"])),
        *(("unread(2)", ["run", *words, "-c", "nothing.yaml"], EXIT_USAGE) for words in ([], ["--json"], ["--debug"])),
        *(("full(1)", words, EXIT_USAGE) for words in (["report"], ["report", "--json"], ["--help"], ["--version"])),
        *(("full(1)", ["run", *words, "-c", "lost.yaml"], EXIT_SOURCE) for words in ([], ["--json"])),
        *(("full(1); full(2)", words, EXIT_USAGE) for words in (["report"], ["report", "--json"])),
        *(("full(2)", words, EXIT_DONE) for words in (["report"], ["report", "--json"])),
    ],
)
def test_who_reads_what_is_told_does_not_decide_how_it_ends(
    pipeline: Path, fresh: "Fresh", stream: str, arguments: list[str], code: int
) -> None:
    """`cdcm report | head -1` says nothing of broken pipes; what a full disk has not taken is told, and no success."""
    lost = pipeline.read_text(encoding="utf-8").replace("topic: shop.public.orders", "topic: shop.public.lost")
    (pipeline.parent / "lost.yaml").write_text(lost, encoding="utf-8")
    program = (
        f"import os, sys; from cdc_materializer.cli import main\n{_STREAMS}\n{stream}; sys.exit(main(sys.argv[1:]))"
    )
    ended = fresh.run(program, *arguments, folder=pipeline.parent)

    full = "error: Standard output cannot be written: No space left on device. Send it to where there is room.\n"
    assert (ended.code, ended.err) == (code, full if stream == "full(1)" else "")


@pytest.mark.parametrize("stream", ["unread(2)", "full(2)"])
def test_a_signal_is_heard_though_nobody_reads_what_is_said_of_it(pipeline: Path, fresh: "Fresh", stream: str) -> None:
    """A run whose log has nowhere to go ends as any other."""
    program = (
        "import os, signal, sys, time; from cdc_materializer.run import run; from cdc_materializer.cli import main\n"
        f"{_STREAMS}\n"
        "def run_once(config, options):\n"
        "    time.sleep(0.1); os.kill(os.getpid(), signal.SIGTERM)\n"
        "    print(options.stop.wait(10), flush=True); sys.exit(3)\n"
        f"{stream}; run.run_once = run_once; main(['run'])"
    )

    assert fresh.run(program, folder=pipeline.parent).out == "True\n"


def test_a_pipe_of_the_work_that_breaks_is_a_bug(
    pipeline: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is none of the command's own readers."""

    def run_once(*_: object, **__: object) -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr("cdc_materializer.run.run.run_once", run_once)
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, getattr(sys, name))  # Typer puts others in their places

    assert pipeline.exists()
    assert main(["run"]) == EXIT_BUG
    assert "An unexpected BrokenPipeError" in capsys.readouterr().err
