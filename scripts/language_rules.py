"""The words that `scripts/check_language.py` refuses, each with what to write instead."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Word:
    """A pattern of prose that is refused. `in_docs_only`: comments may use it. `inside`: neighbours that make it harmless."""

    pattern: str
    instead: str
    in_docs_only: bool = False
    but_not: str = ""


WORDS = (
    Word(r"(?:some|no|every|any)body(?:'s|’s)?|whoever", "the actor: 'no worker', 'any caller'"),
    Word(
        r"(?:(?:^|[.:;!?–(]\s|\b(?:all|those|one|any|anyone|everyone|than)\s)who(?=\s[^?.!]*(?:[.!]|$)))",
        "the actor, in a clause of its own: 'a worker that waits …'",
    ),
    Word(r"says|said", "reports, logs, states"),
    Word(r"tells|told", "reports, logs, sends"),
    Word(r"speaks|spoke|spoken", "reports, sends"),
    Word(r"hears|heard|unheard|news|last words", "receives, update"),
    Word(r"whatever|whichever|wherever(?! (?:needed|possible|necessary))|however(?!,)", "'any …', 'wherever needed': rewrite"),
    Word(
        r"(?<!there )(?<!there's )\b(?:is|are|was|were) no (?!longer|more|less|fewer|later|earlier|older|newer|better|worse|"
        r"faster|slower|\w+er than)[a-z]+",
        "negate the verb: 'is not a …'",
    ),
    Word(r"in vain|nevertheless", "without effect; still"),
    Word(r"for ever|by and by|anew|afresh|meanwhile", "indefinitely; gradually; again; in the meantime"),
    Word(r"he|his|him", "the caller, the worker; it"),
    Word(r"we|us|ours?|ourselves", "Holdfast, this process", in_docs_only=True, but_not=r"US|\d us"),
    Word(r"heal(?:s|ed|ing|er)?|unhealed|owe|owes", "run the hook; is due"),
    Word(r"debts?|mend(?:s|ed|ing)?", "due; fix"),
    Word(r"sound", "valid, correct"),
    Word(r"deaf|numb|lonely", "unresponsive"),
    Word(r"(?:run|runs|ran|running|tried|works?|last try,?|job is|jobs are|it is) alone", "isolated"),
    Word(r"dead leases?|lease (?:is|was) dead", "an ended lease"),
    Word(r"(?:ward|burial|epitaph|undertaker|lodger)s?|bur(?:y|ies|ied|ying)", "worker handle, recover, lease end"),
    Word(r"sow(?:s|n|ed|ing)?|strays?|tend(?:s|ed)? (?!to\b)", "schedule, watch, unknown task"),
    Word(r"couriers?|tellers?|proviso", "relay, reporter, claimable until"),
    Word(r"(?:back|next|wait(?:s|ing)?|stand(?:s|ing)?|first|last|stays?) in (?:the )?line", "returns to its queue"),
    Word(r"rooms?", "slots, space, package"),
    Word(r"(?:its|their|his|the job's|a job's) (?:old |former )?place(?: in)?(?=[\s.,;:)]|$)", "position"),
    Word(r"(?:the|a|its|their|that|this|each|every|no|old) marks?", "fence, flag", but_not=r"(?i)question|quot"),
    Word(r"(?:a|its|their|each|every|no) holds?(?=[\s.,;:)]|$)", "the active job"),
    Word(r"a text|texts", "a string"),
    Word(r"whole numbers?", "an integer"),
    Word(r"so many", "N, that many"),
    Word(r"of (?:its|their|his|our|my) own", "own, separate"),
    Word(r"worth a word", "a warning"),
    Word(r"let(?:s|ting)? go(?: of)?", "close, release"),
    Word(r"g[ia]v(?:e|es|en|ing) (?:(?:it|them|one|all) )?back", "return"),
    Word(r"t(?:ake|akes|aken|aking|ook) (?:(?:it|them|one) )?out", "remove"),
    Word(r"put(?:s|ting)? (?:(?:it|them) )?in order", "repair"),
)

NAME_PARTS = {
    "handle or recover": "ward wards burial burials bury buries epitaph undertaker lodger lodgers",
    "reporter, backup or relay": "teller courier couriers deposit deposits",
    "the actor": "somebody nobody nobodys everybody anybody whoever",
    "report, receive or log": "told heard hears unheard said",
    "schedule or watch": "sow sows sown sowing plots stray strays",
    "unresponsive": "deaf numb",
    "isolated": "alone lonely",
    "hook": "heal heals healed healing healer unhealed",
    "the word of the language guide": "proviso desk afresh anew patience",
}
"""Parts of names in snake_case and CamelCase that are retired, by what takes their place."""

NAMES = {
    "Hold": "ActiveJob",
    "Judge": "Precondition",
    "Charge": "RescueReason",
    "Chance": "Randomness",
    "Via": "ClaimSource",
    "Wake": "Signal",
    "Patience": "Retrier",
    "Hello": "WorkerHello",
    "Beaten": "LeaseRenewed",
    "Overrun": "DeadlineExceeded",
    "Commits": "GroupCommit",
    "Offspring": "ChildWriter",
    "Seat": "RunnerHandle",
    "Departed": "RunnerExited",
    "Heart": "WorkerLease",
    "Pace": "ClockCheck",
    "Sweep": "Republisher",
    "Emptiness": "UntilEmpty",
    "Watches": "RowsDeclarations",
    "Ledger": "BatchState",
    "Alarm": "Timer",
    "Turns": "TransactionTurns",
    "Spares": "SpareConnection",
    "Acquaintances": "KnownConnections",
    "Steering": "JobAction",
    "Surroundings": "RowsContext",
}
"""Class names that the language guide renamed."""

PARTS = {part: instead for instead, parts in NAME_PARTS.items() for part in parts.split()}
SPLIT = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
PROSE = re.compile(
    r"(?<![\w-])(?:" + "|".join(f"(?P<w{number}>{word.pattern})" for number, word in enumerate(WORDS)) + r")(?![\w-])",
    re.IGNORECASE,
)
SENTENCE_END = re.compile(r"(?<=[.!?])[\"')*_’”]*(?:\s+|$)|\s[·|–]\s|:\s|\n")
COUNTED = re.compile(r"[\w`][^\s]*")
MOST_WORDS = 35
LONGEST_TEST_NAME = 100
SUBJECT = re.compile(r"[a-z/_-]+: [a-z][^;]{1,}[^.;]")
LONGEST_SUBJECT = 72
