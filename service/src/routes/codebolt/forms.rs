//! The forms in which clients send memories: that of pipelines, that of the agent SDK, and that of the client SDK. Only the
//! first one is stored; the library rewrites the second one, and the third one is rewritten here.

use serde_json::value::RawValue;

use crate::http::{ApiError, Finding, JsonObject, raw};

/// Members that the service keeps itself: what a client sends back is ignored.
pub const TIMES: [&str; 2] = ["createdAt", "updatedAt"];

/// Where errors of a form stand in what the client has sent.
#[derive(Clone, Debug, Default)]
pub struct Places(Vec<(String, String)>);

impl Places {
    /// Names each place as the client wrote it.
    pub fn rename(&self, mut error: ApiError) -> ApiError {
        error.path = error.path.map(|path| self.renamed(path));
        error.findings = error.findings.into_iter().map(|found| self.renamed_finding(found)).collect();
        error
    }

    /// The same for one finding.
    pub fn renamed_finding(&self, found: Finding) -> Finding {
        Finding { path: self.renamed(found.path), ..found }
    }

    /// A place here, and where it stands in what was sent.
    pub fn add(&mut self, here: String, sent: String) {
        self.0.push((here, sent));
    }

    fn renamed(&self, path: String) -> String {
        let rest = |here: &str| {
            let rest = path.strip_prefix(here)?;
            (rest.is_empty() || rest.starts_with(['.', '['])).then_some(rest)
        };
        let found = self.0.iter().find_map(|(here, sent)| Some(format!("{sent}{}", rest(here)?)));
        found.unwrap_or(path)
    }
}

/// A memory as it is to be stored, but for its times.
pub struct Incoming {
    pub form: JsonObject,
    pub places: Places,
    /// What an id may be made of; none: it has one, or needs one of its own.
    pub named: Option<String>,
}

/// Reads a memory in any form.
///
/// # Errors
/// Where a step of the client SDK's form is none.
pub fn memory(mut form: JsonObject) -> Result<Incoming, ApiError> {
    for name in TIMES {
        form.remove(name);
    }
    let mut places = Places::default();
    let has_steps = form.get("steps").is_some() && form.get("retrieval").is_none();
    if has_steps {
        rewrite_steps(&mut form, &mut places)?;
    }
    let is_sdk = || {
        let retrieval = form.get("retrieval").and_then(JsonObject::of);
        retrieval.is_some_and(|retrieval| retrieval.get("source_type").is_some() && retrieval.get("pipeline").is_none())
    };
    let may_lack_id = form.get("id").is_none() && (has_steps || is_sdk());
    let named = may_lack_id.then(|| form.read("label").unwrap_or_default());
    Ok(Incoming { form, places, named })
}

/// A step of the client SDK.
struct SdkStep {
    /// Where it stands in the list.
    position: usize,
    order: f64,
    step: JsonObject,
}

/// `name` is the label, and `steps` the pipeline in their order, with the members of `config`.
fn rewrite_steps(form: &mut JsonObject, places: &mut Places) -> Result<(), ApiError> {
    if form.get("label").is_none()
        && let Some(name) = form.remove("name")
    {
        form.set("label", name);
        places.add("label".to_owned(), "name".to_owned());
    }
    let given: Vec<Box<RawValue>> = form.expect("steps", "a list of steps")?.unwrap_or_default();
    let steps = given.iter().enumerate().map(|(position, step)| sdk_step(position, step));
    let mut steps: Vec<SdkStep> = steps.collect::<Result<_, _>>()?;
    // The sort is stable: of equals, as written.
    steps.sort_by(|one, other| one.order.total_cmp(&other.order));
    for (at, step) in steps.iter().enumerate() {
        let (here, sent) = (format!("retrieval.pipeline[{at}]"), format!("steps[{}]", step.position));
        places.add(format!("{here}.type"), format!("{sent}.type"));
        for (name, _) in step.step.members() {
            places.add(format!("{here}.{name}"), format!("{sent}.config.{name}"));
        }
        places.add(here, sent);
    }
    places.add("retrieval.pipeline".to_owned(), "steps".to_owned());
    form.remove("steps");
    let pipeline: Vec<JsonObject> = steps.into_iter().map(|step| step.step).collect();
    let mut retrieval = JsonObject::default();
    retrieval.put("pipeline", &pipeline);
    form.put("retrieval", &retrieval);
    Ok(())
}

fn sdk_step(position: usize, step: &RawValue) -> Result<SdkStep, ApiError> {
    let at = |name: &str| format!("steps[{position}]{name}");
    let Some(given) = JsonObject::of(step) else { return Err(ApiError::invalid(at(""), "a step must be an object")) };
    let mut step = JsonObject::default();
    step.set("type", given.get("type").map(ToOwned::to_owned).unwrap_or_else(|| raw(&"")));
    if let Some(config) = given.get("config") {
        let Some(config) = JsonObject::of(config) else {
            return Err(ApiError::invalid(at(".config"), "a step's config must be an object"));
        };
        for (name, value) in config.members().filter(|(name, _)| *name != "type") {
            step.set(name, value.to_owned());
        }
    }
    let order = given.expect("order", "a number");
    let order = order.map_err(|error| ApiError { path: Some(at(".order")), ..error })?;
    Ok(SdkStep { position, order: order.unwrap_or(position as f64), step })
}

/// An id made of a name: small letters and digits, runs of anything else as one hyphen. `number` tells those apart that are
/// taken.
pub fn id_of_name(name: &str, number: u32) -> String {
    /// Leaves room for a number.
    const LONGEST: usize = 100;
    let mut id = String::new();
    for character in name.chars().flat_map(char::to_lowercase).take(LONGEST) {
        if character.is_ascii_alphanumeric() {
            id.push(character);
        } else if !id.is_empty() && !id.ends_with('-') {
            id.push('-');
        }
    }
    let id = id.trim_end_matches('-');
    match (id, number) {
        ("", _) => String::new(),
        (id, 1) => id.to_owned(),
        (id, number) => format!("{id}-{number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(text: &str) -> JsonObject {
        JsonObject::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn steps_stand_in_their_order_and_their_faults_where_they_were_sent() {
        let sent =
            r#"{"name":"N","steps":[{"type":"b","order":2},{"type":"a","config":{"k":1.0,"type":"x"},"order":1}]}"#;
        let Incoming { form, places, named } = memory(object(sent)).unwrap();
        assert_eq!(form.to_text(), r#"{"label":"N","retrieval":{"pipeline":[{"type":"a","k":1.0},{"type":"b"}]}}"#);
        assert_eq!(named.as_deref(), Some("N"));
        let renamed = |path: &str| places.rename(ApiError::invalid(path, "")).path.unwrap();
        assert_eq!(renamed("retrieval.pipeline[1].type"), "steps[0].type");
        assert_eq!(renamed("retrieval.pipeline[0].k[1]"), "steps[1].config.k[1]");
        assert_eq!((&*renamed("label"), &*renamed("labels")), ("name", "labels"));
    }

    #[test]
    fn only_a_form_without_ids_of_its_own_may_lack_one() {
        assert!(memory(object(r#"{"label":"L","retrieval":{"pipeline":[]}}"#)).unwrap().named.is_none());
        assert!(memory(object(r#"{"label":"L","retrieval":{"source_type":"kv"}}"#)).unwrap().named.is_some());
        assert!(memory(object(r#"{"id":"i","name":"L","steps":[]}"#)).unwrap().named.is_none());
    }

    #[test]
    fn ids_are_made_of_what_names_have_of_letters_and_digits() {
        for (name, number, id) in
            [("Project conventions!", 1, "project-conventions"), (" Ä b", 2, "b-2"), ("…", 3, ""), ("A--B", 1, "a-b")]
        {
            assert_eq!(id_of_name(name, number), id);
        }
    }
}
