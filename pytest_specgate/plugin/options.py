"""One table of options: command line, ini twins, and what they come to.

The command line wins over the ini file, which wins over the default. Whoever passes any option of ours wants
suites to run; an ini value alone does not, except ``specgate = true``. What a person must say anew each time
(updating baselines, trusting code) has no ini twin. A wrong value is a UsageError that lists the valid ones.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

TIERS = ("smoke", "full", "nightly")
UPDATE_ONLY = ("new", "failed")
MOST_SESSIONS = 20
LEAST_RUNS, MOST_RUNS = 3, 50
ANNOTATIONS = ("github", "none")
TRACKERS = ("mlflow", "otel", "wandb")
REPORT_ENDINGS = (".html", ".json", ".md")


@dataclass(frozen=True, slots=True)
class Option:
    """One option: ``--specgate-NAME``, and ``specgate_name`` in an ini file where ``ini`` says so."""

    name: str
    help: str
    kind: Literal["flag", "value", "list"] = "value"
    metavar: str | None = None
    ini: bool = True

    @property
    def flag(self) -> str:
        """As written on the command line."""
        return f"--specgate-{self.name}" if self.name else "--specgate"

    @property
    def dest(self) -> str:
        """As written in an ini file."""
        return self.flag[2:].replace("-", "_")


_SWITCH = Option("", "Collect and judge suites (*.specgate.yaml); implied by all options below", "flag")
TABLE = (
    _SWITCH,
    Option("update", "Store what is measured as the new baselines", "flag", ini=False),
    Option("update-only", "Store only these entries: new, failed", metavar="WHICH", ini=False),
    Option("update-sessions", "Record in so many processes, one by one (default: 1)", metavar="N", ini=False),
    Option("accept-loss", "Let an update store a loss that a gate does not allow", "flag", ini=False),
    Option("strict", "Fail where a gate stays undecided", "flag"),
    Option("tier", "Run suites up to a tier: smoke, full, nightly (default: smoke)", metavar="TIER"),
    Option("baselines", "Folder of baselines (default: baselines in the root directory)", metavar="DIR"),
    Option("budget", "Time for measuring, such as 90 or 20min; what clear cases leave, others get", metavar="SECONDS"),
    Option("report", "Write a report of the run (.html, .json, .md); may be given more than once", "list", "PATH"),
    Option("history", "Append this run's summary to DIR/runs.jsonl, for the command trend", metavar="DIR"),
    Option("plan", "Say what would run and how many minutes it takes, and run nothing", "flag", ini=False),
    Option("selftest", "Plant gross losses into the engines; fail where a gate does not turn red", "flag", ini=False),
    Option("suggest", "Run each case N times on unchanged code and propose gates", metavar="N", ini=False),
    Option("false-alarm", "Wanted rate of false alarms a build for what is proposed (default: 0.01)", metavar="RATE"),
    Option("price", "Price of an hour of one GPU, such as 2.50/h, for advice on costs", metavar="PRICE"),
    Option("annotations", "Mark the lines of suites for a CI: github, none (default: by GITHUB_ACTIONS)", metavar="CI"),
    Option("export", "Send the numbers to mlflow, otel or wandb; may be given more than once", "list", "TRACKER"),
    Option("device", "Run engines on cpu, cuda, cuda:1, mps, whatever the suite says", metavar="DEVICE"),
    Option("trust-remote-code", "Let models bring their own Python code", "flag", ini=False),
    Option("allow-pickle", "Let model weights be unpickled, which can run code", "flag", ini=False),
    Option("allow-code", "Let python_tests run code that models wrote, in limited processes", "flag", ini=False),
)
_BY_NAME = {option.name: option for option in TABLE}


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line and the ini file come to."""

    update: bool
    update_only: str | None
    update_sessions: int
    accept_loss: bool
    strict: bool
    tier: str
    baselines: Path
    budget: float | None
    reports: tuple[Path, ...]
    history: Path | None
    plan: bool
    selftest: bool
    suggest: int | None
    false_alarm: float
    annotations: bool
    exports: tuple[str, ...]
    device: str | None
    price: float | None
    allow_remote_code: bool
    allow_pickle: bool
    allow_code: bool

    def takes(self, tier: str) -> bool:
        """Whether a suite of this tier runs."""
        return TIERS.index(tier) <= TIERS.index(self.tier)


def add(parser: pytest.Parser) -> None:
    """Offer every option of the table."""
    group = parser.getgroup("specgate", "gates for speculative decoding")
    actions = {"flag": "store_true", "value": "store", "list": "append"}
    ini_types: dict[str, Any] = {"flag": "bool", "value": "string", "list": "linelist"}
    for option in TABLE:
        how: dict[str, Any] = {"metavar": option.metavar} if option.metavar else {}
        how |= {"action": actions[option.kind], "dest": option.dest, "help": option.help}
        group.addoption(option.flag, default=None, **how)
        if option.ini:
            parser.addini(option.dest, option.help, type=ini_types[option.kind], default=None)


def wanted(config: pytest.Config) -> bool:
    """Whether this run is to collect suites."""
    return given(config) or bool(config.getini(_SWITCH.dest))


def given(config: pytest.Config) -> bool:
    """Whether an option of ours stands on the command line (or in addopts)."""
    return any(config.getoption(option.dest) is not None for option in TABLE)


def read(config: pytest.Config) -> Options:
    """Check every option. Raises pytest.UsageError."""
    update_only, sessions = _choice(config, "update-only", UPDATE_ONLY), _sessions(config)
    update = bool(_value(config, "update")) or update_only is not None or sessions is not None
    if _value(config, "accept-loss") and not update:
        raise pytest.UsageError("--specgate-accept-loss: nothing is stored — add --specgate-update")
    return Options(
        update=update,
        update_only=update_only,
        update_sessions=sessions or 1,
        accept_loss=bool(_value(config, "accept-loss")),
        strict=bool(_value(config, "strict")),
        tier=_choice(config, "tier", TIERS) or "smoke",
        baselines=_baselines(config),
        budget=_budget(config),
        reports=_reports(config),
        history=_history(config),
        plan=bool(_value(config, "plan")),
        selftest=_selftest(config, update=update),
        suggest=_runs(config),
        false_alarm=_false_alarm(config),
        annotations=_annotations(config),
        exports=_exports(config),
        device=_value(config, "device") or None,
        price=_price(config),
        allow_remote_code=bool(_value(config, "trust-remote-code")),
        allow_pickle=bool(_value(config, "allow-pickle")),
        allow_code=bool(_value(config, "allow-code")),
    )


def _selftest(config: pytest.Config, *, update: bool) -> bool:
    """Raise UsageError where numbers of engines with a planted loss would be kept, or none be measured."""
    if not _value(config, "selftest"):
        return False
    others = {"update": update, **{name: bool(_value(config, name)) for name in ("plan", "suggest", "history")}}
    for name, given_too in others.items():
        if given_too:
            what = f"--specgate-selftest: cannot go with --specgate-{name}"
            raise pytest.UsageError(f"{what} — a selftest measures engines with a planted loss; leave one out")
    return True


def _value(config: pytest.Config, name: str) -> Any:
    option = _BY_NAME[name]
    value = config.getoption(option.dest)
    return config.getini(option.dest) if value is None and option.ini else value


def _folder(config: pytest.Config, name: str) -> Path:
    """Where a relative path starts: where the user stands, or where the ini file's project is."""
    typed = config.getoption(_BY_NAME[name].dest) is not None
    return config.invocation_params.dir if typed else config.rootpath


def _choice(config: pytest.Config, name: str, valid: tuple[str, ...]) -> str | None:
    value: str | None = _value(config, name)
    if value is None or value in valid:
        return value
    from pytest_specgate.units import did_you_mean

    what = f"--specgate-{name}: unknown value {value!r}{did_you_mean(value, valid)}"
    raise pytest.UsageError(f"{what} — choose one of: {', '.join(valid)}")


def _baselines(config: pytest.Config) -> Path:
    value = _value(config, "baselines")
    path = _folder(config, "baselines") / value if value else config.rootpath / "baselines"
    if path.exists() and not path.is_dir():
        raise pytest.UsageError(f"--specgate-baselines: {str(value)!r} is no folder — name a folder")
    return path


def _history(config: pytest.Config) -> Path | None:
    value: str | None = _value(config, "history")
    if not value:
        return None
    path = _folder(config, "history") / value
    if path.exists() and not path.is_dir():
        raise pytest.UsageError(f"--specgate-history: {str(value)!r} is no folder — name a folder")
    return path


def _budget(config: pytest.Config) -> float | None:
    value: str | None = _value(config, "budget")
    if value is None:
        return None
    from pytest_specgate.units import parse_seconds

    try:
        return parse_seconds(f"{value} s" if value.replace(".", "", 1).isdecimal() else value)
    except ValueError as error:
        what = f"--specgate-budget: {value!r} is no time above zero"
        raise pytest.UsageError(f"{what} — write seconds, such as 90, or a unit, such as 2min") from error


def _price(config: pytest.Config) -> float | None:
    value: str | None = _value(config, "price")
    if value is None:
        return None
    from pytest_specgate.suite.advising import parse_price

    try:
        return parse_price(value)
    except ValueError as error:
        raise pytest.UsageError(f"--specgate-price: {error}") from error


def _sessions(config: pytest.Config) -> int | None:
    value: str | None = _value(config, "update-sessions")
    if value is None or (value.isascii() and value.isdecimal() and 1 <= int(value) <= MOST_SESSIONS):
        return None if value is None else int(value)
    what = f"--specgate-update-sessions: {value!r} is no number from 1 to {MOST_SESSIONS}"
    raise pytest.UsageError(f"{what} — 3 tell how much a restart changes")


def _annotations(config: pytest.Config) -> bool:
    chosen = _choice(config, "annotations", ANNOTATIONS)
    return chosen == "github" if chosen else os.environ.get("GITHUB_ACTIONS") == "true"


def _exports(config: pytest.Config) -> tuple[str, ...]:
    values: list[str] = _value(config, "export") or []
    for value in values:
        if value not in TRACKERS:
            what = f"--specgate-export: unknown tracker {value!r}"
            raise pytest.UsageError(f"{what} — choose one of: {', '.join(TRACKERS)}")
        from pytest_specgate.interop import missing

        if package := missing(value):
            hint = f"python -m pip install 'pytest-specgate[{value}]'"
            raise pytest.UsageError(f"--specgate-export {value}: {package} is not installed — {hint}")
    return tuple(dict.fromkeys(values))


def _runs(config: pytest.Config) -> int | None:
    value: str | None = _value(config, "suggest")
    if value is None or (value.isascii() and value.isdecimal() and LEAST_RUNS <= int(value) <= MOST_RUNS):
        return None if value is None else int(value)
    what = f"--specgate-suggest: {value!r} is no number of runs from {LEAST_RUNS} to {MOST_RUNS}"
    raise pytest.UsageError(f"{what} — 10 allow limits half as wide as 5")


def _false_alarm(config: pytest.Config) -> float:
    value: str | None = _value(config, "false-alarm")
    if value is None:
        return 0.01
    from pytest_specgate.metrics import Unit
    from pytest_specgate.units import parse_quantity

    try:
        rate = parse_quantity(value, Unit.FRACTION)
    except ValueError as error:
        raise pytest.UsageError(f"--specgate-false-alarm: {error}") from error
    if not 0 < rate <= 0.5:
        raise pytest.UsageError(f"--specgate-false-alarm: {value!r} is out of range — write a rate such as 1%")
    return rate


def _reports(config: pytest.Config) -> tuple[Path, ...]:
    values: list[str] = _value(config, "report") or []
    for value in values:
        if Path(value).suffix not in REPORT_ENDINGS:
            what = f"--specgate-report: {value!r} has no ending that names a format"
            raise pytest.UsageError(f"{what} — end it in one of: {', '.join(REPORT_ENDINGS)}")
    from pytest_specgate.files import could_be_written

    paths = tuple(_folder(config, "report") / value for value in values)
    for path in paths:  # before hours are measured
        if not could_be_written(path):
            raise pytest.UsageError(f"--specgate-report: {path} cannot be written — choose a file in a writable folder")
    return paths
