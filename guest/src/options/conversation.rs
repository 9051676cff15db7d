//! The options of conversations, which have no effect with `conversation: false`, the default.
//!
//! An option of another type, a number out of range and an unknown name are refused.
//!
//! | option | type, range | default |
//! |---|---|---|
//! | `conversation` | boolean: whether the conversation is kept; the options below have no effect otherwise | false |
//! | `max_context_tokens` | 0 or integer, 64 to 2000000: the window and its summary | 0: derived |
//! | `context_window` | 0 or integer, 256 to 8000000: the model's; four fifths of what it leaves beside `reserve_tokens` are the budget, 50000 without it | 0 |
//! | `reserve_tokens` | 0 or integer, 1 to 8000000 | 0: 35 % of `context_window`, at most 64000 |
//! | `max_window_bytes` | integer, 1024 to 8388608: window, summary and trace as JSON; of a longer one older turns are left out, or all of it | 8388608 |
//! | `message_limit` | integer, 1 to 500: messages of users and assistants in a window | 500 |
//! | `window_keep` | integer, 10 to 90: percent that stay when a full window is cut back | 50 |
//! | `pin_first_turn` | boolean | false |
//! | `tool_result_tokens` | integer, 0 to 2000000: older results become placeholders when a window is cut back | 40000 |
//! | `window_form` | `"messages"`, `"text"` | `"messages"` |
//! | `human_prefix`, `assistant_prefix` | text of at most 64 bytes | `"Human"`, `"Assistant"` |
//! | `query_prompt_template` | text with `{{history}}` and `{{query}}`, each once at most | empty: the history alone |
//! | `memory_trace` | boolean | false |
//! | `min_message_length` | integer, 0 to 8388608: characters; shorter answers are `skipped` | 1 |
//! | `max_message_length` | integer, 0 to 8388608: characters; longer texts are cut and end with a note of it, and in any case those of more than 1 MiB in JSON; 0: only those | 400000 |
//! | `strip_thinking` | boolean: `<think>…</think>` is not stored | false |
//! | `skip_markers` | list of texts: answers that are `skipped` | `["[generation was interrupted]"]` |
//! | `redact` | list of patterns, replaced in what is stored: text and classes `{d}` digit, `{h}` hexadecimal, `{w}` letter, digit or `_`, `{t}` also `-.~+/=`, `{n}` no blank; `{d4}`, `{d4+}`, `{d+}`; `\{` for a brace | `[]` |
//! | `require_node` | boolean: node mode without a `node_id` is `failed`, not `passed` | false |
//! | `node_ttl_hours` | number, 0 (for ever) to 876000, from the last use | 720 |
//! | `max_session_messages` | 0 or integer, from 10: records; over it, the task `retention` | 0: any number |
//! | `max_session_bytes` | 0 or integer, from 1024 | 0: any number |
//! | `summaries` | boolean: over the budget, the task `summary` | true |
//! | `summary_max_tokens` | integer, 32 to 32768; never more than a quarter of the budget | 1024 |
//! | `summary_prompt`, `title_prompt` | text of at most 16 KiB | empty: the filter's own |
//! | `auto_generate_titles` | boolean: after the first turn, the task `title` | true |
//! | `title_max_length` | integer, 10 to 200: characters | 50 |
//! | `title_from_first_message` | boolean: the first message is the title until there is a better one | true |
//! | `update_existing_titles` | boolean: with each summary, the task `title` | false |
//! | `memory_mode` | `"conversation"`, `"node"` | `"conversation"` |
//! | `recall` | `"off"`, `"session"`, `"user"`: what the window shows no more, or what any session of the user has said, is attached where the question bears on it; needs a store with indexes. After each answer, the task `recall` | `"off"` |
//! | `recall_tokens` | integer, 64 to 32768: of what is recalled, beside the window | 2000 |
//! | `recall_hints` | boolean: speakers, dates and times that the question names count for more than words | true |
//! | `recall_vectors` | boolean: whether passages get embeddings, by the task `vectors`, and questions come with one | false |
//! | `recall_ttl_hours` | number, 0 (for ever) to 876000, from when it was said | 0 |
//! | `recall_life` | `"user"`, `"session"`: copies of a session's messages outlive its expiry, or end with it | `"user"` |
//! | `recall_exclude` | list of `"tool"`, `"import"`: what comes from there is not recalled | `[]` |

use keepline_json as json;
use std::borrow::Cow;
use std::fmt::Write as _;

use crate::options::reader::{ConfigProblem, Reader};
use crate::options::recall::RecallOptions;
use crate::options::settings::Settings;
use crate::text;
use crate::text::redact::Pattern;

/// How what is remembered is attached to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As chat messages: an array.
    Messages,
    /// As one text, with who speaks before each message.
    Text,
}

/// Whose transcript an entry's turns belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The session's.
    Conversation,
    /// That of the node that the entry names.
    Node,
}

/// The options in force.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The tokens that a question gets at most, summary included. 0: derived from the two below.
    pub max_context_tokens: u64,
    /// The model's context window in tokens. 0: unknown.
    pub context_window: u64,
    /// What of it the question and its answer need. 0: 35 % of it, at most 64,000.
    pub reserve_tokens: u64,
    /// Bytes that a question gets at most, as JSON: window, summary and trace.
    pub max_window_bytes: u64,
    /// The messages of users and assistants that a question gets at most.
    pub message_limit: u64,
    /// The share of the budget, in percent, that stays when a full window is cut back.
    pub window_keep: u64,
    /// Whether the thread's first turn stays in the window.
    pub pin_first_turn: bool,
    /// Results of tools beyond the newest so many tokens become placeholders when a window is cut back.
    pub tool_result_tokens: u64,
    /// See [`Form`].
    pub window_form: Form,
    /// Who speaks, in a text.
    pub human_prefix: String,
    /// Who speaks, in a text.
    pub assistant_prefix: String,
    /// What the text becomes: `{{history}}` and `{{query}}` stand for it and for the question. Empty: the text itself.
    pub query_prompt_template: String,
    /// Whether `memory_trace` is attached.
    pub memory_trace: bool,
    /// Answers of fewer characters are not stored.
    pub min_message_length: u64,
    /// Texts of more characters are cut. 0: only those of more than 1 MiB in JSON, which always are.
    pub max_message_length: u64,
    /// Whether `<think>…</think>` is cut out of answers.
    pub strip_thinking: bool,
    /// Answers that stand in for one that failed: not stored.
    pub skip_markers: Vec<String>,
    /// What is replaced by `[redacted]` in what is stored.
    pub redact: Vec<Pattern>,
    /// See [`Mode`].
    pub memory_mode: Mode,
    /// Whether an entry in node mode that names no node fails, instead of passing without memory.
    pub require_node: bool,
    /// Records that a conversation may have before the oldest turns go. 0: any number.
    pub max_session_messages: u64,
    /// Their bytes. 0: any number.
    pub max_session_bytes: u64,
    /// Whether what no longer fits is summarized.
    pub summaries: bool,
    /// Tokens of a summary, at most.
    pub summary_max_tokens: u64,
    /// What a model is asked for. Empty: a prompt of ours.
    pub summary_prompt: String,
    /// Whether conversations get a title.
    pub auto_generate_titles: bool,
    /// Characters of a title, at most.
    pub title_max_length: u64,
    /// Whether the first message is the title until there is a better one.
    pub title_from_first_message: bool,
    /// Whether a title is made anew with each summary.
    pub update_existing_titles: bool,
    /// What a model is asked for. Empty: a prompt of ours.
    pub title_prompt: String,
    /// Hours that an unused node's transcript lives; 0: for ever.
    pub node_ttl_hours: f64,
    /// What is recalled of what the window does not show.
    pub recall: RecallOptions,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_context_tokens: 0,
            context_window: 0,
            reserve_tokens: 0,
            max_window_bytes: LENGTH_MAX,
            message_limit: MESSAGES_MAX,
            window_keep: 50,
            pin_first_turn: false,
            tool_result_tokens: 40_000,
            window_form: Form::Messages,
            human_prefix: "Human".to_owned(),
            assistant_prefix: "Assistant".to_owned(),
            query_prompt_template: String::new(),
            memory_trace: false,
            min_message_length: 1,
            max_message_length: 400_000,
            strip_thinking: false,
            skip_markers: vec!["[generation was interrupted]".to_owned()],
            redact: Vec::new(),
            memory_mode: Mode::Conversation,
            require_node: false,
            max_session_messages: 0,
            max_session_bytes: 0,
            summaries: true,
            summary_max_tokens: 1024,
            summary_prompt: String::new(),
            auto_generate_titles: true,
            title_max_length: 50,
            title_from_first_message: true,
            update_existing_titles: false,
            title_prompt: String::new(),
            node_ttl_hours: 720.0,
            recall: RecallOptions::default(),
        }
    }
}

/// Without a window to derive it from.
const BUDGET: u64 = 50_000;

pub(crate) const BUDGET_MIN: u64 = 64;

pub(crate) const TOKENS_MAX: u64 = 2_000_000;

pub(crate) const WINDOW_MIN: u64 = 256;

pub(crate) const WINDOW_MAX: u64 = 4 * TOKENS_MAX;

const RESERVE_MAX: u64 = 64_000;

const MESSAGES_MAX: u64 = 500;

const LENGTH_MAX: u64 = 8 << 20;

const PREFIX_MAX: usize = 64;

const TEMPLATE_MAX: usize = 16 << 10;

/// A store's log can hold more, but nobody reads it.
const SESSION_MAX: u64 = 1 << 40;

const LIST_MAX: usize = 64;

/// The names of all of them.
pub(crate) const NAMES: &str = "conversation, max_context_tokens, context_window, reserve_tokens, \
                                max_window_bytes, message_limit, window_keep, pin_first_turn, tool_result_tokens, window_form, human_prefix, \
                                assistant_prefix, query_prompt_template, memory_trace, min_message_length, \
                                max_message_length, strip_thinking, skip_markers, redact, memory_mode, require_node, \
                                node_ttl_hours, max_session_messages, max_session_bytes, summaries, \
                                summary_max_tokens, summary_prompt, auto_generate_titles, title_max_length, \
                                title_from_first_message, update_existing_titles, title_prompt, recall, recall_tokens, \
                                recall_hints, recall_vectors, recall_exclude, recall_ttl_hours, recall_life";

impl Options {
    /// Set one. Whether there is one of this name.
    pub(crate) fn set(&mut self, reader: &Reader<'_>) -> Result<bool, ConfigProblem> {
        let default = Self::default();
        let read = match reader.field {
            "max_context_tokens" => or_zero(reader, &mut self.max_context_tokens, BUDGET_MIN, TOKENS_MAX),
            "context_window" => or_zero(reader, &mut self.context_window, WINDOW_MIN, WINDOW_MAX),
            "reserve_tokens" => or_zero(reader, &mut self.reserve_tokens, 1, WINDOW_MAX),
            "max_window_bytes" => {
                reader.integer(&mut self.max_window_bytes, default.max_window_bytes, 1024, LENGTH_MAX)
            }
            "message_limit" => reader.integer(&mut self.message_limit, default.message_limit, 1, MESSAGES_MAX),
            "window_keep" => reader.integer(&mut self.window_keep, default.window_keep, 10, 90),
            "pin_first_turn" => reader.boolean(&mut self.pin_first_turn, default.pin_first_turn),
            "tool_result_tokens" => {
                reader.integer(&mut self.tool_result_tokens, default.tool_result_tokens, 0, TOKENS_MAX)
            }
            "window_form" => reader.choice(
                &mut self.window_form,
                default.window_form,
                &[("messages", Form::Messages), ("text", Form::Text)],
            ),
            "human_prefix" => text(reader, &mut self.human_prefix, &default.human_prefix, PREFIX_MAX),
            "assistant_prefix" => text(reader, &mut self.assistant_prefix, &default.assistant_prefix, PREFIX_MAX),
            "query_prompt_template" => {
                let mut template = String::new();
                text(reader, &mut template, "", TEMPLATE_MAX)?;
                let is_once = |name| {
                    let after = text::split_once(&template, name);
                    after.is_none_or(|(_, after)| text::find(after, name).is_none())
                };
                if !is_once("{{history}}") || !is_once("{{query}}") {
                    return Err(reader.problem("a text that has {{history}} and {{query}} once each at most"));
                }
                self.query_prompt_template = template;
                Ok(())
            }
            "memory_trace" => reader.boolean(&mut self.memory_trace, default.memory_trace),
            "min_message_length" => {
                reader.integer(&mut self.min_message_length, default.min_message_length, 0, LENGTH_MAX)
            }
            "max_message_length" => {
                reader.integer(&mut self.max_message_length, default.max_message_length, 0, LENGTH_MAX)
            }
            "strip_thinking" => reader.boolean(&mut self.strip_thinking, default.strip_thinking),
            "skip_markers" => texts(reader, &mut self.skip_markers, &default.skip_markers),
            "redact" => {
                let pattern = |text: &String| Pattern::parse(text).map_err(|why| reader.problem(&why));
                let mut list = Vec::new();
                texts(reader, &mut list, &[])?;
                self.redact = list.iter().map(pattern).collect::<Result<_, _>>()?;
                Ok(())
            }
            "memory_mode" => reader.choice(
                &mut self.memory_mode,
                default.memory_mode,
                &[("conversation", Mode::Conversation), ("node", Mode::Node)],
            ),
            "require_node" => reader.boolean(&mut self.require_node, default.require_node),
            "max_session_messages" => or_zero(reader, &mut self.max_session_messages, 10, SESSION_MAX),
            "max_session_bytes" => or_zero(reader, &mut self.max_session_bytes, 1024, SESSION_MAX),
            "summaries" => reader.boolean(&mut self.summaries, default.summaries),
            "summary_max_tokens" => {
                reader.integer(&mut self.summary_max_tokens, default.summary_max_tokens, 32, 32_768)
            }
            "summary_prompt" => text(reader, &mut self.summary_prompt, &default.summary_prompt, TEMPLATE_MAX),
            "auto_generate_titles" => reader.boolean(&mut self.auto_generate_titles, default.auto_generate_titles),
            "title_max_length" => reader.integer(&mut self.title_max_length, default.title_max_length, 10, 200),
            "title_from_first_message" => {
                reader.boolean(&mut self.title_from_first_message, default.title_from_first_message)
            }
            "update_existing_titles" => {
                reader.boolean(&mut self.update_existing_titles, default.update_existing_titles)
            }
            "title_prompt" => text(reader, &mut self.title_prompt, &default.title_prompt, TEMPLATE_MAX),
            "node_ttl_hours" => reader.hours(&mut self.node_ttl_hours, default.node_ttl_hours),
            _ => return self.recall.set(reader),
        };
        read.map(|()| true)
    }

    /// Adds them to the members of an object that is being written.
    pub(crate) fn write(&self, out: &mut String) {
        out.push_str(", \"conversation\": true");
        let form = if self.window_form == Form::Text { "text" } else { "messages" };
        let mode = if self.memory_mode == Mode::Node { "node" } else { "conversation" };
        for (name, number) in [
            ("max_context_tokens", self.max_context_tokens),
            ("context_window", self.context_window),
            ("reserve_tokens", self.reserve_tokens),
            ("max_window_bytes", self.max_window_bytes),
            ("message_limit", self.message_limit),
            ("window_keep", self.window_keep),
            ("tool_result_tokens", self.tool_result_tokens),
            ("min_message_length", self.min_message_length),
            ("max_message_length", self.max_message_length),
            ("max_session_messages", self.max_session_messages),
            ("max_session_bytes", self.max_session_bytes),
            ("summary_max_tokens", self.summary_max_tokens),
            ("title_max_length", self.title_max_length),
            ("recall_tokens", self.recall.tokens),
        ] {
            let _ = write!(out, ", \"{name}\": {number}");
        }
        for (name, is_on) in [
            ("pin_first_turn", self.pin_first_turn),
            ("memory_trace", self.memory_trace),
            ("strip_thinking", self.strip_thinking),
            ("require_node", self.require_node),
            ("summaries", self.summaries),
            ("auto_generate_titles", self.auto_generate_titles),
            ("title_from_first_message", self.title_from_first_message),
            ("update_existing_titles", self.update_existing_titles),
            ("recall_hints", self.recall.hints),
            ("recall_vectors", self.recall.vectors),
        ] {
            let _ = write!(out, ", \"{name}\": {is_on}");
        }
        for (name, text) in [
            ("recall", self.recall.scope.as_str()),
            ("recall_life", if self.recall.ends_with_session { "session" } else { "user" }),
            ("window_form", form),
            ("memory_mode", mode),
            ("human_prefix", &*self.human_prefix),
            ("assistant_prefix", &*self.assistant_prefix),
            ("query_prompt_template", &*self.query_prompt_template),
            ("summary_prompt", &*self.summary_prompt),
            ("title_prompt", &*self.title_prompt),
        ] {
            let _ = write!(out, ", \"{name}\": ");
            json::push_string(out, text);
        }
        let patterns: Vec<&str> = self.redact.iter().map(Pattern::as_str).collect();
        let markers: Vec<&str> = self.skip_markers.iter().map(String::as_str).collect();
        let excluded: Vec<&str> = self.recall.exclude.iter().map(String::as_str).collect();
        for (name, list) in [("skip_markers", markers), ("redact", patterns), ("recall_exclude", excluded)] {
            let _ = write!(out, ", \"{name}\": [");
            for (index, text) in list.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                json::push_string(out, text);
            }
            out.push(']');
        }
        for (name, hours) in [("node_ttl_hours", self.node_ttl_hours), ("recall_ttl_hours", self.recall.ttl_hours)] {
            let _ = write!(out, ", \"{name}\": {}", crate::options::config::in_decimal(hours));
        }
    }

    /// The tokens that a question gets at most.
    pub fn budget(&self) -> u64 {
        budget(self.max_context_tokens, self.context_window, self.reserve_tokens)
    }

    /// The tokens that a question gets at most, with what is set for its session and then for itself. Who names a window
    /// has its budget derived from that, and its reserve, too, unless that is set beside it.
    pub(crate) fn budget_of(&self, closer: &[&Settings]) -> u64 {
        let (mut tokens, mut window, mut reserve) = (self.max_context_tokens, self.context_window, self.reserve_tokens);
        for settings in closer {
            if let Some(named) = settings.context_window {
                (tokens, window, reserve) = (0, named, 0);
            }
            tokens = settings.max_context_tokens.unwrap_or(tokens);
            reserve = settings.reserve_tokens.unwrap_or(reserve);
        }
        budget(tokens, window, reserve)
    }
}

/// Of what is given, or derived where it is 0.
pub(crate) fn budget(max_context_tokens: u64, context_window: u64, reserve_tokens: u64) -> u64 {
    let derived = || {
        let window = context_window.min(WINDOW_MAX);
        let reserve = match reserve_tokens {
            0 => (window * 35).div_ceil(100).min(RESERVE_MAX),
            given => given,
        };
        window.saturating_sub(reserve) * 4 / 5
    };
    let tokens = match (max_context_tokens, context_window) {
        (0, 0) => BUDGET,
        (0, _) => derived(),
        (given, _) => given,
    };
    tokens.clamp(BUDGET_MIN, TOKENS_MAX)
}

/// 0, which is what is derived, or a number in this range.
fn or_zero(reader: &Reader<'_>, option: &mut u64, min: u64, max: u64) -> Result<(), ConfigProblem> {
    let mut number = 0;
    match reader.integer(&mut number, 0, 0, max) {
        Ok(()) if number == 0 || number >= min => {
            *option = number;
            Ok(())
        }
        _ => Err(reader.problem(&format!("0 or an integer from {min} to {max}"))),
    }
}

/// A text; or a number or boolean, taken as it is spelt, as command lines and environments hand in a text like `2026`.
fn text(reader: &Reader<'_>, option: &mut String, default: &str, max: usize) -> Result<(), ConfigProblem> {
    let is_spelt = reader.raw.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    let spelt = || is_spelt.then_some(Cow::Borrowed(reader.raw));
    *option = match json::string(reader.raw).or_else(spelt) {
        _ if reader.raw == "null" => default.to_owned(),
        Some(text) if text.len() <= max => text.into_owned(),
        _ => return Err(reader.problem(&format!("a text of at most {max} bytes"))),
    };
    Ok(())
}

/// A list of texts, none of them empty; or, as command lines and environments hand lists in, a text that spells one.
pub(crate) fn texts(reader: &Reader<'_>, option: &mut Vec<String>, default: &[String]) -> Result<(), ConfigProblem> {
    if reader.raw == "null" {
        *option = default.to_vec();
        return Ok(());
    }
    let spelt = json::string(reader.raw);
    let raw = spelt.as_deref().unwrap_or(reader.raw);
    let mut list = Vec::new();
    let mut is_good = true;
    let read = json::elements(raw, |raw| match json::string(raw) {
        Some(text) if !text.is_empty() && text.len() <= TEMPLATE_MAX => list.push(text.into_owned()),
        _ => is_good = false,
    });
    if read.is_none() || !is_good || list.len() > LIST_MAX {
        return Err(reader.problem(&format!("a JSON list of at most {LIST_MAX} texts, none of them empty")));
    }
    *option = list;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::options::config::Config;

    fn options(text: &str) -> Options {
        let config = Config::parse(&format!("{{\"conversation\": true, {text}}}")).unwrap();
        Options::clone(config.conversation.as_ref().unwrap())
    }

    #[test]
    fn effective_options_are_read_back_as_the_same() {
        let given = r#"{"conversation": true, "max_context_tokens": 4000, "context_window": 8000, "reserve_tokens": 9,
        "message_limit": 20, "max_window_bytes": 1024, "window_keep": 30, "pin_first_turn": true, "tool_result_tokens": 7,
        "window_form": "text", "human_prefix": "Mensch \"x\"", "assistant_prefix": "", "memory_trace": true,
        "query_prompt_template": "{{history}}\n{{query}}", "min_message_length": 2, "max_message_length": 0,
        "strip_thinking": true, "skip_markers": [], "redact": ["sk-{w+}", "a\\{"], "memory_mode": "node",
        "require_node": true, "node_ttl_hours": 0.5, "max_session_messages": 10, "max_session_bytes": 1024,
        "summaries": false, "summary_max_tokens": 32, "summary_prompt": "a", "auto_generate_titles": false,
        "title_max_length": 10, "title_from_first_message": false, "update_existing_titles": true,
        "title_prompt": "b", "recall": "session", "recall_tokens": 64, "recall_hints": false, "recall_vectors": true,
        "recall_exclude": ["import", "tool"], "recall_ttl_hours": 2160, "recall_life": "session"}"#;
        let config = Config::parse(given).unwrap();
        let told = config.effective();
        assert_eq!(Config::parse(&told).unwrap(), config, "{told}");
        let mut names = Vec::new();
        json::members(&told, |key, _| names.push(json::string(key).unwrap().into_owned())).unwrap();
        for name in NAMES.split(", ") {
            assert!(names.iter().any(|told| told == name), "{name}");
        }
        let default = Config::parse(r#"{"conversation": true}"#).unwrap();
        assert_eq!(Config::parse(&default.effective()).unwrap(), default);
    }

    #[test]
    fn mistakes_name_what_is_allowed() {
        for (text, allowed) in [
            (r#""max_context_tokens": 63"#, "0 or an integer from 64 to 2000000"),
            (r#""window_keep": 0.5"#, "an integer from 10 to 90"),
            (r#""human_prefix": [1]"#, "a text of at most 64 bytes"),
            (r#""skip_markers": "x""#, "a JSON list of at most 64 texts"),
            (r#""redact": ["{"]"#, "redact must be"),
            (r#""query_prompt_template": "{{query}}{{history}}{{query}}""#, "once each"),
            (r#""max_window_bytes": 1023"#, "an integer from 1024 to 8388608"),
            (r#""memory_mode": "graph""#, "\"conversation\" or \"node\""),
            (r#""recall": "all""#, "\"off\", \"session\" or \"user\""),
            (r#""recall_life": "ever""#, "\"user\" or \"session\""),
            (r#""recall_exclude": ["user"]"#, "a list of \"tool\" and \"import\""),
            (r#""conversation": 1"#, "true or false"),
        ] {
            let problem = Config::parse(&format!("{{{text}}}")).unwrap_err();
            assert!(problem.message.contains(allowed), "{}", problem.message);
        }
    }

    #[test]
    fn a_list_may_be_spelt_in_a_text() {
        let parsed = |redact: &str| Config::parse(&format!(r#"{{"conversation": true, "redact": {redact}}}"#)).unwrap();
        assert_eq!(parsed(r#""[\"{d4}\", \"sk-{t+}\"]""#), parsed(r#"["{d4}", "sk-{t+}"]"#));
    }

    #[test]
    fn a_budget_is_given_or_derived() {
        for (text, budget) in [
            (r#""max_context_tokens": 4000, "context_window": 9999"#, 4000),
            (r#""max_context_tokens": null"#, 50_000),
            (r#""context_window": 200000"#, 108_800),
            (r#""context_window": 128000"#, 66_560),
            (r#""context_window": 8000, "reserve_tokens": 1000"#, 5600),
            (r#""context_window": 8000, "reserve_tokens": 8000"#, 64),
        ] {
            assert_eq!(options(text).budget(), budget, "{text}");
        }
    }
}
