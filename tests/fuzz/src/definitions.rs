//! Definitions of pipelines and requests for them: checked and run without a panic, and what is accepted is stable.

use keepline_pipelines::{
    assembly::AssemblyRequest,
    catalog::DefinitionKind,
    datasets::{Asker, Owner, OwnerKind},
    definition::{DefinitionLimits, Form},
    requests::{Outcome, RequestContext, ask_rules, assemble_context, execute_memory, stored::put_definition},
    run::{Answer, RunLimits, RunRequest},
    value::Value,
};

use crate::{pipelines_host::TestHost, texts};

const LIMITS: &DefinitionLimits = &DefinitionLimits::DEFAULT;

pub fn holds(data: &[u8]) {
    let Some(parts) = texts(data) else { return };
    let [definition, rest @ ..] = &parts[..] else { return };
    let request = rest.first().and_then(|text| Value::parse_input(text).ok()).unwrap_or_default();
    for kind in [DefinitionKind::Memory, DefinitionKind::Rules] {
        for form in [Form::Json, Form::Yaml] {
            let (findings, accepted) = kind.check_text(form, definition, LIMITS);
            assert!(accepted.is_some() || findings.iter().any(|finding| finding.is_error));
            assert!(findings.iter().all(|finding| !finding.message.is_empty()));
            let Some(accepted) = accepted else { continue };
            // The stored form means the same, and is stored as it is.
            let again = kind.check_text(Form::Json, &accepted.form.to_json(), LIMITS).1.unwrap();
            assert_eq!(again, accepted);
            run(kind, &accepted.id, &accepted.form, &request);
        }
    }
}

/// Over an empty store, whose host answers every need.
fn run(kind: DefinitionKind, id: &str, form: &Value, request: &Value) {
    let host = TestHost::new();
    let owner = Owner { kind: OwnerKind::Project, name: "p".into() };
    put_definition(&host, &owner, kind, id, form, None).unwrap();
    let asker = Asker { owner, session: Some("s".into()), user: None };
    let mut answers: Vec<(String, Answer)> = Vec::new();
    let object = |name: &str| request.member(name).and_then(Value::as_object).cloned().unwrap_or_default();
    let limits = RunLimits::default();
    let now = 1_772_366_400_000;
    let run = RunRequest { intent: object("intent"), variables: object("variables"), now, limits };
    let assembly = AssemblyRequest::parse(request).ok();
    // Each step may need something once.
    for _ in 0..=LIMITS.steps {
        let definition_limits = LIMITS;
        let context = RequestContext {
            host: &host,
            asker: &asker,
            now,
            limits,
            definition_limits,
            answers: &answers,
            revisions: &[],
        };
        let needs = match kind {
            DefinitionKind::Memory => match execute_memory(&context, id, &run).unwrap().outcome {
                Outcome::Done(report) => {
                    assert!(Value::parse(&report.to_value().to_json()).is_ok());
                    Vec::new()
                }
                Outcome::Needs(needs) => needs,
            },
            DefinitionKind::Rules => {
                let Some(assembly) = &assembly else { return };
                let _ = ask_rules(&context, assembly);
                match assemble_context(&context, assembly) {
                    Ok(reply) => match reply.outcome {
                        Outcome::Done(_) => Vec::new(),
                        Outcome::Needs(needs) => needs,
                    },
                    Err(_) => Vec::new(),
                }
            }
        };
        if needs.is_empty() {
            return;
        }
        answers.extend(needs.iter().map(|need| (need.digest(), Answer::Output(Value::from(vec![Value::from("x")])))));
    }
    panic!("it needs something for ever");
}
