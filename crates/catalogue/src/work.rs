//! Pools, rules, checkpoints and resources.

use crate::setting::{Default, Holds, Kind, Setting, Shape, column, count, setting};
use paceline_types::Role;

/// A number that orders rules and checkpoints.
const NUMBER: Holds = Holds::Integer(0, u32::MAX as i64);

/// A count without its own upper bound.
const COUNT: Holds = Holds::Integer(0, i64::MAX);

/// The amount that raises or lowers a priority.
const STEP: Holds = Holds::Own("a whole number from 1 to 254", Shape::Integer(1, 254));

/// The modes of patterns.
const MODES: &[&str] = &["exact", "glob", "regex"];

/// The settings that a pool needs to be started.
const RANGE: &[(&str, &str)] = &[("priority", "[10, 20]")];

/// The settings that a checkpoint needs so that requests wait there.
const LIMITED: &[(&str, &str)] = &[("concurrency", "3")];

const NOT_YET: &str = "no part of this version starts threads of a pool";

pub(crate) const PERSISTENT: Setting = setting(
    "persistent",
    Holds::Flag(true),
    Default::Value("true"),
    "Whether it exists after a restart of the daemon. A new object that the API or the command line makes is \
     transient unless this is said.",
)
.such_as("true")
.by_admin()
.kept();

/// Pools.
pub const POOLS: Kind = Kind {
    word: "pool",
    plural: "pools",
    table: "Pool",
    id: "name",
    within: None,
    role: Role::Admin,
    doc: "A pool runs the requests of one range of priorities, so many at a time. The pool `default` always exists: it \
          runs priority 0 and every priority that no other pool has, and has no limit unless one is set.",
    settings: &[
        setting("name", Holds::Word, Default::Required, "The name, one word."),
        column(
            "priority",
            "priority_min",
            Holds::Own("[LOWEST, HIGHEST], each from -127 to 127", Shape::Pair(-127, 127)),
            Default::None("no priorities; the pool cannot be started"),
            "The lowest and the highest priority that it runs. Ranges of two pools must not overlap.",
        ),
        column(
            "threads",
            "threads",
            Holds::Table(&[
                column(
                    "min",
                    "threads_min",
                    Holds::Integer(0, 1_000_000),
                    Default::Value("0"),
                    "Threads that are kept when there is nothing to do.",
                )
                .idle(NOT_YET),
                column(
                    "max",
                    "threads_max",
                    Holds::Integer(0, 1_000_000),
                    Default::None("no limit"),
                    "How many requests run at one time.",
                ),
            ]),
            Default::None(""),
            "The slots of the pool.",
        ),
        column(
            "queue",
            "queue",
            Holds::Table(&[
                column(
                    "max_len",
                    "queue_max_len",
                    COUNT,
                    Default::Value("100000"),
                    "How many requests may wait for a slot; further ones are refused.",
                ),
                column(
                    "max_delay",
                    "queue_max_delay",
                    Holds::Span,
                    Default::None("no limit"),
                    "How long a request may wait for a slot before it is refused.",
                ),
            ]),
            Default::None(""),
            "The queue before the pool.",
        ),
        PERSISTENT,
        column(
            "started",
            "state",
            Holds::Own("true or false", Shape::Flag),
            Default::Value("true"),
            "Whether it runs requests. A pool that the API or the command line makes is stopped unless this is said.",
        )
.such_as("true").beside(RANGE)
.unshown(),
        setting(
            "state",
            Holds::OneOf(&["started", "stopped", "draining"]),
            Default::Value("\"stopped\""),
            "Whether it runs requests (`started`), lets them wait (`stopped`), or finishes its queue and refuses new ones \
             (`draining`).",
        )
.such_as("\"started\"")
        .beside(RANGE)
        .in_api()
        .kept(),
        setting(
            "group",
            Holds::Text,
            Default::None("no group"),
            "The concurrency group that limits its runnable threads.",
        )
        .idle("concurrency groups are not part of this version"),
        setting(
            "stack_bytes",
            Holds::Integer(1, i64::MAX),
            Default::None("the system's default"),
            "The stack of each of its threads.",
        )
        .idle(NOT_YET),
        setting(
            "heap_bytes_max",
            Holds::Integer(1, i64::MAX),
            Default::None("no limit"),
            "The memory that each of its threads may allocate.",
        )
        .idle(NOT_YET),
    ],
    figures: &[
        count("running", "Requests that run in the pool."),
        count("waiting", "Requests that wait for the pool."),
    ],
};

const RULE_SETTINGS: &[Setting] = &[
    setting(
        "number",
        NUMBER,
        Default::Machine("the highest number plus 10"),
        "The place in the list; rules are evaluated in the order of their numbers.",
    ),
    column(
        "match",
        "criteria",
        Holds::Own("a table of patterns, or criteria as one text", Shape::Patterns(MODES)),
        Default::None("matches every request"),
        "Patterns for attributes; all must match. A pattern is a text, or a table that names its mode: \
         `{ glob = \"etl-*\" }`. All patterns of a list for one attribute must match.",
    ),
    column(
        "mode",
        "criteria",
        Holds::Own("\"exact\", \"glob\" or \"regex\"", Shape::OneOf(MODES)),
        Default::Value("\"exact\""),
        "The mode of patterns that do not name one.",
    )
.such_as("\"glob\"").beside(&[("match", "{\"user\": \"etl-*\"}")])
.unshown(),
    column(
        "nocase",
        "criteria",
        Holds::Own("true or false", Shape::Flag),
        Default::Value("false"),
        "Whether patterns that do not say otherwise ignore case.",
    )
.beside(&[("match", "{\"user\": \"etl\"}")])
.unshown(),
    setting(
        "when",
        Holds::Expression,
        Default::None("always"),
        "A condition that must hold as well; it may read counters.",
    )
.such_as("\"user == \\\"ann\\\"\""),
    column(
        "set",
        "action",
        Holds::Own("a whole number from -127 to 127", Shape::Integer(-127, 127)),
        Default::None("the priority is not set"),
        "Sets the priority. Only `set` overrides an earlier rejection.",
    ),
    column(
        "raise",
        "action",
        STEP,
        Default::None("the priority is not raised"),
        "Raises the priority, to 127 at most.",
    ),
    column(
        "lower",
        "action",
        STEP,
        Default::None("the priority is not lowered"),
        "Lowers the priority, to -127 at least.",
    ),
    column(
        "reject",
        "action",
        Holds::Own("true or false", Shape::Flag),
        Default::Value("false"),
        "Rejects the request. A later rule with `set` overrides that, if this one says `then = \"continue\"`.",
    ),
    setting(
        "then",
        Holds::OneOf(&["continue", "stop"]),
        Default::Machine("`\"stop\"` with `reject`, else `\"continue\"`"),
        "Whether the rules behind this one are evaluated if it matches.",
    )
.such_as("\"stop\""),
    setting(
        "disabled",
        Holds::Flag(false),
        Default::Value("false"),
        "Whether the rule is skipped.",
    )
    .kept(),
    setting(
        "log",
        Holds::Flag(false),
        Default::Value("false"),
        "Whether each match is logged. A rule that only logs shows what it would do before it is enforced.",
    )
    .kept(),
];

/// The running list of rules.
pub const RULES: Kind = Kind {
    word: "rule",
    plural: "rules",
    table: "Rule",
    id: "number",
    within: None,
    role: Role::Operator,
    doc: "A rule matches requests by their attributes and by counters, and changes their priority or rejects them. These are \
          the rules in use; a restart replaces them with the saved ones.",
    settings: RULE_SETTINGS,
    figures: &[
        count("evaluations", "How often the rule was evaluated."),
        count("matches", "How often it matched."),
        count("errors", "How often its condition failed, which counts as no match."),
    ],
};

/// The saved list of rules.
pub const SAVED_RULES: Kind = Kind {
    word: "saved rule",
    plural: "saved-rules",
    table: "Saved_Rule",
    id: "number",
    within: None,
    role: Role::Admin,
    doc: "The rules that are in use after the next start. `paceline rules save` makes them equal to the running list.",
    settings: RULE_SETTINGS,
    figures: &[],
};

/// Checkpoints.
pub const CHECKPOINTS: Kind = Kind {
    word: "checkpoint",
    plural: "checkpoints",
    table: "Checkpoint",
    id: "name",
    within: None,
    role: Role::Operator,
    doc: "A checkpoint holds requests to a rate or to a number at one time, for each value of its key, with a queue. \
          A checkpoint with neither `rate` nor `concurrency` only counts.",
    settings: &[
        setting(
            "name",
            Holds::Name,
            Default::Required,
            "The name, which expressions use to read its counters.",
        ),
        setting(
            "at",
            Holds::At,
            Default::Required,
            "Where it stands: `frontend NAME`, `backend NAME`, `server BACKEND/NAME` or `pool NAME`. The API is the \
             frontend `api`.",
        )
.such_as("\"frontend api\""),
        setting(
            "on",
            Holds::OneOf(&["request", "connection"]),
            Default::Value("\"request\""),
            "Whether it holds requests or, at a frontend of the HTTP door, connections.",
        )
.beside(&[("at", "\"frontend web\"")]),
        setting(
            "number",
            NUMBER,
            Default::Value("0"),
            "The place among the checkpoints of the same list; they are passed in the order of their numbers.",
        ),
        setting(
            "when",
            Holds::Expression,
            Default::None("every request"),
            "Which requests it holds; others pass it unseen.",
        )
.such_as("\"user == \\\"ann\\\"\""),
        setting(
            "key",
            Holds::Expression,
            Default::None("one counter for all requests"),
            "What has a counter of its own, such as `user`. Requests without the attribute share the counter of the \
             empty text; `when` can exclude them: `tag.table != \"\"`.",
        )
.such_as("\"user\""),
        setting(
            "fair",
            Holds::Expression,
            Default::None("one queue in the order of rank"),
            "The flow of a request: flows in its queue are served in turn, by weight and cost.",
        )
.such_as("\"user\"").beside(LIMITED),
        setting(
            "weight",
            Holds::Expression,
            Default::None("1"),
            "The share of a flow, where `fair` is set.",
        )
.such_as("\"priority + 200\"").beside(&[("fair", "\"user\""), ("concurrency", "3")]),
        setting(
            "rate",
            Holds::Rate,
            Default::None("no rate"),
            "How much may pass in a time, such as `\"500/s\"` or `\"3 per 10s\"`. Cannot be combined with `concurrency`.",
        ),
        setting(
            "burst",
            Holds::Integer(1, u32::MAX as i64),
            Default::Value("1"),
            "How much may pass at one moment, where `rate` is set.",
        )
.beside(&[("rate", "\"10/s\"")]),
        setting(
            "concurrency",
            NUMBER,
            Default::None("no such limit"),
            "How many requests may be past it at one time.",
        ),
        setting(
            "count",
            Holds::Own("true", Shape::Flag),
            Default::None("not said"),
            "Says that it only counts, so that neither `rate` nor `concurrency` was forgotten.",
        )
        .in_file(),
        setting(
            "period",
            Holds::Span,
            Default::Value("\"1s\""),
            "The time over which `rate(\"NAME\")` is measured, where no `rate` is set.",
        ),
        column(
            "queue",
            "queue",
            Holds::Table(&[
                column(
                    "max_len",
                    "queue_max_len",
                    COUNT,
                    Default::Value("1000"),
                    "How many requests may wait for one counter; further ones are refused.",
                )
.beside(LIMITED),
                column(
                    "max_total",
                    "queue_max_total",
                    COUNT,
                    Default::Value("100000"),
                    "How many requests may wait at the checkpoint in all.",
                )
.beside(LIMITED),
                column(
                    "max_delay",
                    "queue_max_delay",
                    Holds::Span,
                    Default::Value("\"30s\""),
                    "How long a request may wait. One that would have to wait longer is refused when it arrives.",
                )
.beside(LIMITED),
            ]),
            Default::None(""),
            "Its queue.",
        ),
        setting(
            "keys_max",
            Holds::Integer(1, i64::MAX),
            Default::Value("1000000"),
            "How many keys have a counter of their own; further keys share one.",
        ),
        setting(
            "status",
            Holds::Integer(400, 599),
            Default::Value("503"),
            "The HTTP status of a refusal.",
        ),
        setting(
            "mode",
            Holds::OneOf(&["enforce", "watch"]),
            Default::Value("\"enforce\""),
            "Whether it holds and refuses requests, or lets all pass and counts those it would have held (`would_wait`) or \
             refused (`would_refuse`). Nothing waits in mode `watch`, so `max_len` counts there only if it is 0.",
        ),
        PERSISTENT,
    ],
    figures: &[
        count("arrived", "Requests that arrived."),
        count("passed", "Requests that passed."),
        count("refused", "Requests that it refused."),
        count("would_wait", "Requests that passed in mode `watch` and would have waited in mode `enforce`."),
        count(
            "would_refuse",
            "Requests that passed in mode `watch` and would have been refused in mode `enforce`.",
        ),
        count("queued", "Requests that wait in its queue."),
        count("inflight", "Requests that passed it and have not ended."),
        count("keys", "Keys that have a counter."),
    ],
};

/// Resources.
pub const RESOURCES: Kind = Kind {
    word: "resource",
    plural: "resources",
    table: "Resource",
    id: "name",
    within: None,
    role: Role::Operator,
    doc: "A resource can be claimed. A claim takes the resource and everything below it.",
    settings: &[
        setting("name", Holds::Name, Default::Required, "The name that claims use."),
        setting(
            "parents",
            Holds::Own("a list of names of resources", Shape::Texts),
            Default::None("no parent"),
            "The resources that it is directly below.",
        ),
        PERSISTENT,
    ],
    figures: &[
        count("holding", "Requests that hold a claim on it."),
        count("waiting", "Requests that wait for a claim on it."),
    ],
};
