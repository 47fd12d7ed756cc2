"""Masks: what a contract hides, which rules see it, and when a mirror's rows are no longer as its contract says."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cdc_materializer.contract import Contract, load_contract
from cdc_materializer.errors import ConfigError, ContractInvalid
from cdc_materializer.masks import PLAIN, Mask, Masks, judged_types
from cdc_materializer.run.contracts import with_key
from cdc_materializer.schema.schema import Column, TableSchema, plan_schema
from tests.unit.contracts import HEAD, problems_of
from tests.unit.pipelines import SMALL, load, refusal

if TYPE_CHECKING:
    from tests.unit.contracts import Write

_KEY = b"0123456789abcdef"
_MASKED = """
- {name: mail, physicalType: text, required: true, customProperties: [{property: mask, value: hash}]}
- {name: card, physicalType: text, customProperties: [{property: mask, value: last4}]}
- {name: born, physicalType: date, customProperties: [{property: mask, value: null}]}
- {name: pin, physicalType: int, logicalTypeOptions: {maximum: 9}, customProperties: [{property: drop, value: true}]}
- {name: name, customProperties: [{property: drop, value: false}, {property: team, value: x}]}
"""


def _judging_after(path: Path) -> Path:
    after = "    customProperties: [{property: judge, value: after}]\n"
    path.write_text(path.read_text(encoding="utf-8").replace("    properties:", after + "    properties:", 1))
    return path


def _schema(**types: str) -> TableSchema:
    return TableSchema(tuple(Column(name, ddl) for name, ddl in types.items()), ("id",))


def test_masks_are_read_with_the_columns_that_rules_see_before_them(write_contract: "Write") -> None:
    """A bare `null` of YAML is a mask; only columns that a rule reads have to be kept unmasked until it has spoken."""
    masks = load_contract(write_contract(_MASKED)).masks

    assert masks.methods == {"mail": Mask.HASH, "card": Mask.LAST4, "born": Mask.NULL, "pin": Mask.DROP}
    assert masks.judged == {"mail": "string", "pin": "int"}
    assert [masks.of(name) for name in ("MAIL", "name", "id")] == [Mask.HASH, None, None]


def test_a_condition_that_names_a_masked_column_reads_it(write_contract: "Write") -> None:
    """Conditions are SQL, and names in them have any case: what may be read is kept."""
    rule = (
        "{type: custom, engine: greatExpectations, implementation: {type: expect_column_values_to_not_be_null, kwargs: "
    )
    condition = "{row_condition: \"MAIL like '%x'\", condition_parser: spark}}}"
    path = write_contract(
        f"- {{name: a, physicalType: text, quality: [{rule}{condition}]}}\n"
        "- {name: mail, physicalType: text, customProperties: [{property: mask, value: redact}]}"
    )

    assert load_contract(path).masks.judged == {"mail": "string"}


def test_with_judge_after_rules_are_checked_against_the_masked_types(write_contract: "Write") -> None:
    """A hash is text whatever it was, and of a dropped column nothing is left to judge."""
    fits = _judging_after(
        write_contract(
            "- {name: n, physicalType: int, logicalTypeOptions: {minLength: 64},"
            " customProperties: [{property: mask, value: hash}]}"
        )
    )
    contract = load_contract(fits)

    assert (contract.judge, contract.masks.judged) == ("after", {})
    dropped = _judging_after(
        write_contract(
            "- {name: n, physicalType: int, required: true, customProperties: [{property: drop, value: true}]}"
        )
    )
    assert [problem.line for problem in problems_of(dropped)] == [11]


def test_a_mask_on_the_table_and_an_unknown_judge_are_refused(write_contract: "Write") -> None:
    """What hides nothing must not look as if it did."""
    path = write_contract("- {name: a}")
    path.write_text(
        HEAD.replace(
            "    properties:",
            "    customProperties: [{property: mask, value: hash}, {property: judge, value: later}]\n    properties:",
        ),
        encoding="utf-8",
    )

    messages = [problem.message for problem in problems_of(path)]

    assert len(messages) == 2
    assert "the custom property mask belongs to a column" in messages[0]
    assert "unknown value of judge" in messages[1]


def _fingerprint(path: Path) -> str:
    return load_contract(path).fingerprint


def test_the_fingerprint_tells_masks_and_when_rules_are_judged(write_contract: "Write") -> None:
    """Another mask is another contract; the key is no part of it, and never in a text."""
    plain = "- {name: mail, physicalType: text, required: true%s}"
    mask = ", customProperties: [{property: mask, value: %s}]"
    texts = [plain % "", plain % (mask % "hash"), plain % (mask % "redact")]
    found = {_fingerprint(write_contract(text)) for text in texts}
    found.add(_fingerprint(_judging_after(write_contract(texts[1]))))

    contract = load_contract(write_contract(texts[1]))
    keyed = Contract(contract.path, "n", "1", contract.columns, contract.rules, mask_key=_KEY)

    assert len(found) == len(texts) + 1
    assert keyed.fingerprint == contract.fingerprint
    assert _KEY.decode() not in f"{keyed!r} {keyed.masks!r}"


def test_the_mirror_lacks_what_is_dropped_and_has_text_for_what_is_masked(write_contract: "Write") -> None:
    """Rules see the types of the source, in twins that the mirror never gets."""
    masks = load_contract(write_contract(_MASKED)).masks
    writer = _schema(id="bigint", mail="string", card="bigint", born="date", pin="int", other="int")

    plan = plan_schema(None, [masks.written(writer)])
    folded = masks.with_plain(plan.target, [writer])

    assert plan.target.types == {"id": "bigint", "mail": "string", "card": "string", "born": "date", "other": "int"}
    assert [name for name in folded.types if name not in plan.target.types] == [f"{PLAIN}mail", f"{PLAIN}pin"]
    assert judged_types(folded) == {**plan.target.types, "pin": "int"}
    assert masks.with_plain(plan.target, []).types == folded.types
    named = masks.with_plain(_schema(id="bigint", MAIL="string"), [])
    assert list(named.types) == ["id", "MAIL", f"{PLAIN}MAIL", f"{PLAIN}pin"]


def test_a_mirror_whose_rows_were_masked_otherwise_is_known() -> None:
    """Another mask or key, one less or one more, unless the mirror has not got the column; the end of a drop too."""
    told = Masks({"mail": Mask.HASH, "gone": Mask.DROP}, key=_KEY).told()
    columns = ["id", "Mail", "card"]

    def changed(key: bytes = _KEY, **methods: Mask) -> list[str]:
        return Masks(methods, key=key).changed(told, columns)

    assert changed(Mail=Mask.HASH, gone=Mask.DROP) == []
    assert changed(mail=Mask.HASH, gone=Mask.DROP, new=Mask.HASH) == []
    assert changed(mail=Mask.HASH, gone=Mask.DROP, key=b"another key than that") == ["mail"]
    assert changed(mail=Mask.REDACT, gone=Mask.DROP) == ["mail"]
    assert changed(mail=Mask.HASH, card=Mask.LAST4) == ["card", "gone"]


def test_a_hash_is_of_the_value_that_the_contract_declares(write_contract: "Write") -> None:
    """So another type than a text is another mask; where nothing of a value is seen, it is none."""
    text = "- {name: a, physicalType: %s, customProperties: [{property: mask, value: %s}]}"

    def told(physical: str, mask: str) -> str:
        return load_contract(write_contract(text % (physical, mask))).masks.told()["a"]

    assert told("text", "last4") == told("varchar(9)", "last4") == "last4"
    assert told("int", "hash") == told('"numeric(9,2)"', "hash") == told("time", "hash") == "hash:number"
    assert told("timestamptz", "last4") == "last4:moment"
    assert told("double precision", "hash") == told("bytea", "hash") == "hash"
    assert told("int", "redact") == told("text", "redact") == "redact"


def test_masks_are_compared_by_the_names_that_columns_had_when_rows_were_written() -> None:
    """A column that is renamed brings its rows along, as they were masked under the name that it had."""
    renamed, hash_ = {"client": "Customer"}, Masks({"customer": Mask.HASH}, key=_KEY).told()["customer"]

    def changed(told: dict[str, str], **methods: Mask) -> list[str]:
        return Masks(methods, key=_KEY).changed(told, ["id", "client"], renamed)

    assert changed({"customer": hash_}, client=Mask.HASH) == []
    assert changed({"customer": hash_}, customer=Mask.HASH, client=Mask.HASH) == []
    assert changed({"customer": hash_, "client": "redact"}, client=Mask.HASH) == []
    assert changed({"client": hash_}, client=Mask.HASH) == ["client"]
    assert changed({"customer": "redact"}, client=Mask.HASH) == ["client"]
    assert changed({"customer": hash_}) == ["client"]
    assert changed({"customer": "drop"}, client=Mask.DROP) == []


def test_an_earlier_state_shows_nothing_that_is_hidden_by_now() -> None:
    """By the names that columns have by now; a mask that it had and that there is no more hides what may be seen."""
    masks = Masks({"Mail": Mask.HASH, "gone": Mask.DROP}, key=_KEY)
    told, renames = masks.told(), {"old_mail": "mail"}

    assert masks.unhidden(told, ["id", "mail", "gone"], renames) == []
    assert masks.unhidden({**told, "card": "redact"}, ["id", "MAIL", "card"], renames) == []
    assert masks.unhidden({}, ["id", "card"], renames) == []
    assert masks.unhidden({}, ["id", "Mail", "gone"], renames) == ["Mail", "gone"]
    assert masks.unhidden({**told, "mail": "redact"}, ["id", "mail"], renames) == ["mail"]
    assert masks.unhidden(told, ["id", "old_mail"], renames) == ["old_mail"]
    assert masks.unhidden({"old_mail": told["mail"]}, ["id", "old_mail"], renames) == []


@pytest.mark.parametrize("declared", [False, True])
@pytest.mark.parametrize("hidden", ["{property: mask, value: redact}", "{property: drop, value: true}"])
def test_a_column_that_is_renamed_away_from_its_mask_is_refused(
    write_contract: "Write", hidden: str, *, declared: bool
) -> None:
    """Whether the contract says nothing of its new name, or no mask: somebody wanted its values hidden."""
    rest = "\n- {name: client}" if declared else ""
    masks = load_contract(write_contract(f"- {{name: Customer, customProperties: [{hidden}]}}{rest}")).masks

    with pytest.raises(ContractInvalid, match=r"orders\.yaml:10 masks `customer`, which is renamed to `client`"):
        masks.check_renamed({"buyer": "client", "customer": "client"})
    masks.check_renamed({"buyer": "client", "client": "customer"})


def test_a_mask_on_the_key_or_on_a_column_that_is_probably_another_is_refused(write_contract: "Write") -> None:
    """What identifies rows cannot be hidden, and a mistyped name would hide nothing; told with file and line."""
    masks = Masks({"emial": Mask.HASH}, declared=frozenset({"id", "emial"}))

    with pytest.raises(ContractInvalid, match="`email`"):
        masks.check("t", ["id", "email"], ["id"])
    with pytest.raises(ContractInvalid, match="the key of t"):
        masks.check("t", ["ID", "emial"], ["EMIAL"])
    masks.check("t", ["id", "emial", "email"], ["id"])
    stated = load_contract(write_contract("- {name: emial, customProperties: [{property: mask, value: redact}]}")).masks
    with pytest.raises(ContractInvalid, match=r"Contract orders\.yaml:10 masks `emial`, which t has not"):
        stated.check("t", ["id", "email"], ["id"])
    with pytest.raises(ContractInvalid, match=r"Contract orders\.yaml:10 masks `EMIAL`, which is of the key of t"):
        stated.check("t", ["id", "EMIAL"], ["EMIAL"])
    masks.check("t", ["id", "phone"], ["id"])
    masks.check("t", [], [])


def test_a_column_is_not_hidden_beside_one_that_shows_all_of_it() -> None:
    """A mirror of documents that was made without a contract goes on having their text."""
    masks = Masks({"email": Mask.REDACT}, declared=frozenset({"email"}))

    with pytest.raises(ContractInvalid, match="hides `email`, and `document`, which the mirror has too, shows it"):
        masks.check_whole("document", ["email", "document"])
    masks.check_whole("document", ["email"])
    masks.check_whole("document", ["document"])
    Masks({"email": Mask.REDACT, "document": Mask.DROP}).check_whole("document", ["email", "document"])


def test_the_key_is_taken_from_the_file_or_from_one_beside_it(
    folder: Path, write_contract: "Write", monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line end behind the key is none of it; without a key nothing is hashed."""
    monkeypatch.setenv("MASK_KEY", "k" * 20)
    (folder / "key").write_text("f" * 20 + "\r\n", encoding="utf-8")
    contract = load_contract(write_contract(_MASKED))

    keys = [
        with_key(contract, load(folder, f"{SMALL}\nmasks: {{{text}}}")).mask_key
        for text in ("key: '${MASK_KEY}'", "key_file: key")
    ]

    assert keys == [b"k" * 20, b"f" * 20]
    with pytest.raises(ConfigError, match="has no key for that"):
        with_key(contract, load(folder, SMALL))
    assert with_key(load_contract(write_contract("- {name: a}")), load(folder, SMALL)).mask_key is None


@pytest.mark.parametrize(
    ("masks", "said"),
    [
        ("{}", "exactly one of `key` and `key_file`"),
        ("{key: 0123456789abcdef, key_file: key}", "exactly one of `key` and `key_file`"),
        ("{key: 0123456789abcde}", "a key of less than 16 bytes"),
    ],
)
def test_a_key_that_is_none_or_could_be_guessed_is_refused(folder: Path, masks: str, said: str) -> None:
    """Who finds the key by trying can find every card number behind a hash."""
    assert said in refusal(folder, f"{SMALL}\nmasks: {masks}")


@pytest.mark.parametrize("text", [None, "short\n", "x" * 5000])
def test_a_key_file_without_a_key_stops_only_those_who_need_it(folder: Path, text: str | None) -> None:
    """Commands that hash nothing go on, and the error names the file and not what is in it."""
    name = f"key-of-{len(text or '')}"
    if text is not None:
        (folder / name).write_text(text, encoding="utf-8")
    masks = load(folder, f"{SMALL}\nmasks: {{key_file: {name}}}").masks
    assert masks is not None

    assert list(masks.spellings()) == []
    with pytest.raises(ConfigError, match="key of masked columns") as refused:
        masks.secret()
    assert (text or "x" * 9).strip() not in str(refused.value)
