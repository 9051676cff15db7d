//! CodeBolt's routes, as [`super::descriptions`] has those of Keepline.

use super::descriptions::{Description, NONE, Parameters, of};

const LISTED: Parameters = &[
    ("inputScope", "An input scope that they have"),
    ("activeOnly", "true: only those in use"),
    ("limit", "The most, from 1; by default all"),
    ("offset", "How many are left out at the beginning"),
];
const OVERWRITE: Parameters = &[("overwrite", "true: in the place of one that has the id")];
const THREAD: Parameters = &[("x-thread-id", "The thread, where the body names none")];

/// One for each route.
pub const DESCRIPTIONS: &[Description] = &[
    of("GET /persistent-memory/types", LISTED, "", "CodeBoltMemories"),
    of("POST /persistent-memory/types", NONE, "CodeBoltMemoryForm", "CodeBoltMemory").replies(&[201]),
    of("GET /persistent-memory/types/{definition}", NONE, "", "CodeBoltMemory"),
    of("PUT /persistent-memory/types/{definition}", NONE, "CodeBoltMemoryForm", "CodeBoltMemory").tagged(),
    of("DELETE /persistent-memory/types/{definition}", NONE, "", "CodeBoltRemoved"),
    of("POST /persistent-memory/types/{definition}/execute", NONE, "CodeBoltRun", "CodeBoltRunReply").reads(THREAD),
    of("GET /persistent-memory/types/{definition}/export", NONE, "", "CodeBoltExport"),
    of("POST /persistent-memory/types/{definition}/duplicate", NONE, "CodeBoltCopy", "CodeBoltMemory").replies(&[201]),
    of("POST /persistent-memory/validate", NONE, "AnyValue", "CodeBoltValidation"),
    of("POST /persistent-memory/import", OVERWRITE, "CodeBoltImport", "CodeBoltMemory").replies(&[200, 201]),
    of("GET /persistent-memory/step-specs", NONE, "", "CodeBoltSteps"),
    of("GET /persistent-memory/step-specs/user-configurable", NONE, "", "CodeBoltSteps"),
    of("POST /context-assembly/assemble", NONE, "CodeBoltRequest", "CodeBoltAssembled").reads(THREAD),
    of("POST /context-assembly/validate", NONE, "CodeBoltRequest", "CodeBoltChecked").reads(THREAD),
    of("GET /context-assembly/memory-types", NONE, "", "CodeBoltMemoryTypes"),
    of("POST /context-assembly/evaluate-rules", NONE, "CodeBoltRequest", "CodeBoltEvaluation").reads(THREAD),
    of("POST /context-assembly/required-variables", NONE, "CodeBoltRequirements", "CodeBoltRequired"),
    of("GET /context-rule-engine", NONE, "", "CodeBoltEngines"),
    of("POST /context-rule-engine", NONE, "CodeBoltEngineForm", "CodeBoltEngine").replies(&[201]),
    of("GET /context-rule-engine/variables", NONE, "", "CodeBoltVariables"),
    of("POST /context-rule-engine/evaluate", NONE, "CodeBoltRequest", "CodeBoltEvaluation").reads(THREAD),
    of("GET /context-rule-engine/{definition}", NONE, "", "CodeBoltEngine"),
    of("PUT /context-rule-engine/{definition}", NONE, "CodeBoltEngineForm", "CodeBoltEngine").tagged(),
    of("DELETE /context-rule-engine/{definition}", NONE, "", "CodeBoltRemoved"),
    of("POST /context-rule-engine/{definition}/evaluate", NONE, "CodeBoltRequest", "CodeBoltEvaluation").reads(THREAD),
    of("GET /codebolt", NONE, "", "").replies(&[101]),
    of("GET /ws", NONE, "", "").replies(&[101]),
];
