"""What is compared with what, on which prompts, and what should be reached."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from decoders.arms import Arm, Models, Native, Prompt
from decoders.settings import Setting

#: The suite's categories.
CATEGORIES = ("qa", "chat", "summarization", "code", "long-form", "math", "rag", "translation", "copy")
REFERENCE = "native, no draft"
ALONE, BOTH = "draft alone", "lookup, else draft"
#: How arms are called by how texts wait for a slot.
BLOCKS, QUEUE = ", blocks", ", queue"
#: Lengths of texts that end at different times, as shares of the longest.
RAGGED = (1.0, 0.35, 0.7, 0.25, 0.85, 0.5, 0.3, 0.6)

#: The draft at lengths that may be the best.
DRAFTS = (*(Setting("draft", k) for k in (2, 3, 4)), Setting("draft", 6, min_confidence=0.1))
#: Copies where the text repeats itself, and else the draft.
BOTHS = (
    Setting("both", 4, min_confidence=0.1, max_ngram=8, min_match=2),
    Setting("both", 8, min_confidence=0.1, max_ngram=8, drafts_per_match=2, min_match=2),
    Setting("both", 16, min_confidence=0.15, max_ngram=8, drafts_per_match=2),
    Setting("both", 16, min_confidence=0.15, max_ngram=8, drafts_per_match=2, min_match=2),
)
COPIES = (
    Setting("lookup", 8),
    Setting("lookup", 16),
    Setting("lookup", 16, max_ngram=8, drafts_per_match=2),
    Setting("lookup", 16, max_ngram=8, drafts_per_match=2, min_match=2),
)
#: What may pay where a verify has eight rows already.
EIGHT_DRAFTS = (Setting("draft", 1), Setting("draft", 2))
EIGHT_BOTHS = (
    Setting("both", 1, max_ngram=8, min_match=2),
    Setting("both", 1, max_ngram=8, min_match=3),
    Setting("both", 2, max_ngram=8, min_match=2),
)


@dataclass(frozen=True, slots=True)
class Goal:
    """What should be reached by the best of some arms, which draft ``how``."""

    least: float
    contenders: tuple[str, ...]
    how: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """Arms, whom they are compared with, the prompts of each turn, and the goals.

    Where a goal has several contenders, prompts of even turns are others than those of odd ones. ``settles`` names what
    of the plan follows from it; ``queues`` says that its arms differ in how texts wait.
    """

    title: str
    arms: Mapping[str, Arm]
    base: str
    groups: list[list[Prompt]]
    goals: tuple[Goal, ...]
    settles: str = ""
    queues: bool = False


@dataclass(slots=True)
class Plan:
    """How much is measured, and what the first sections found for those after them.

    Of each category ``prompts`` serve for choosing and as many for telling; ``rounds`` are pairs of turns where a turn
    takes several prompts.
    """

    dtype: str
    prompts: int
    rounds: int
    k: int = 2
    both: Setting = BOTHS[-1]
    eight: Setting = EIGHT_BOTHS[0]


def plain(models: Models, plan: Plan) -> Section:
    """The reference arm against ``generate``."""
    groups = _one_by_one(models, ("qa", "chat", "code"), plan.prompts)
    arms = {REFERENCE: models.native(), "transformers generate": models.generate()}
    goal = Goal(1.4 if plan.dtype == "bfloat16" else 1.3, (REFERENCE,))
    return Section("Reference arm ÷ generate", arms, "transformers generate", groups, (goal,))


def suite(models: Models, plan: Plan) -> Section:
    """The candidate arm against the reference arm, over all categories of the full suite."""
    arms, groups = _arms(models, (*DRAFTS, COPIES[-1], *BOTHS)), _one_by_one(models, CATEGORIES, plan.prompts)
    goals = (Goal(1.3, _names(DRAFTS), ALONE), Goal(1.3, _names(BOTHS), BOTH))
    return Section("Candidate ÷ reference over the full suite", arms, REFERENCE, groups, goals, settles="both")


def assisted(models: Models, plan: Plan) -> Section:
    """The candidate arm against assisted generation with the same draft: at the same k, and as the suite chose."""
    mine, theirs = Setting("draft", plan.k), f"transformers assisted, k={plan.k}"
    arms: dict[str, Arm] = {theirs: models.assisted(plan.k)}
    arms |= {str(one): models.native(one) for one in (mine, plan.both)}
    goals = (Goal(2.0, (str(mine),), ALONE), Goal(2.0, (str(plan.both),), BOTH))
    groups = [models.prompts(category)[-1:] for category in CATEGORIES]
    return Section("Candidate ÷ assisted generation, same draft", arms, theirs, groups, goals)


def copy(models: Models, plan: Plan) -> Section:
    """Prompt lookup against the reference arm where much is copied."""
    arms, groups = _arms(models, COPIES), _one_by_one(models, ("copy",), 1 + plan.prompts)
    goals = (Goal(2.0, _names(COPIES)),)
    return Section("Prompt lookup ÷ reference on copy prompts", arms, REFERENCE, groups, goals)


def batch(models: Models, plan: Plan) -> Section:
    """The candidate arm against the reference arm, eight texts side by side, one of each category but the last."""
    goals = (Goal(1.0, _names(EIGHT_DRAFTS), ALONE), Goal(1.0, _names(EIGHT_BOTHS), BOTH))
    each = [_from_both_ends(models.prompts(category), plan.rounds) for category in CATEGORIES[:8]]
    groups = [list(together) for together in zip(*each)]
    arms = _arms(models, (*EIGHT_DRAFTS, *EIGHT_BOTHS))
    return Section("Eight texts: candidate ÷ reference", arms, REFERENCE, groups, goals, settles="eight")


def queue(models: Models, plan: Plan) -> Section:
    """Twenty-four texts of ragged lengths through eight slots, where the next enters, against blocks of eight."""
    each = [models.prompts(category)[:3] for category in CATEGORIES[:8]]
    prompts = [prompt for together in zip(*each) for prompt in together]
    draft, arms = Setting("draft", 1), dict[str, Native]()
    for name, setting in ((REFERENCE, None), (str(draft), draft), (str(plan.eight), plan.eight)):
        arms[name + BLOCKS] = models.native(setting).through(8, RAGGED, blocks=True)
        arms[name + QUEUE] = models.native(setting).through(8, RAGGED)
    title = "24 texts through 8 slots: candidate ÷ reference, both with a queue"
    goals = tuple(Goal(1.0, (f"{one}{QUEUE}",), how) for how, one in ((ALONE, draft), (BOTH, plan.eight)))
    return Section(title, arms, REFERENCE + QUEUE, [prompts] * plan.rounds, goals, queues=True)


SECTIONS: Mapping[str, Callable[[Models, Plan], Section]] = {
    "plain": plain,
    "suite": suite,
    "assisted": assisted,
    "copy": copy,
    "batch": batch,
    "queue": queue,
}


def _arms(models: Models, settings: Sequence[Setting]) -> dict[str, Native]:
    return {REFERENCE: models.native(), **{str(one): models.native(one) for one in settings}}


def _names(settings: Sequence[Setting]) -> tuple[str, ...]:
    return tuple(map(str, settings))


def _one_by_one(models: Models, categories: tuple[str, ...], count: int) -> list[list[Prompt]]:
    """Turns of one prompt each, for choosing and for telling in alternation."""
    return [[prompt] for category in categories for prompt in _from_both_ends(models.prompts(category), count)]


def _from_both_ends(prompts: Sequence[Prompt], count: int) -> list[Prompt]:
    """The first, the last, the second, the last but one, ... : ``count`` from either end."""
    return [prompts[place] for number in range(count) for place in (number, -1 - number)]
