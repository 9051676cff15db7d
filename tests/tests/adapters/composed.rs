//! A filter composed with its store, called as a host without Keepline's types would.

use keepline_tests::component_host::{Host, HostedComponent};
use wasmtime::{
    Store,
    component::{Instance, Val},
};

/// An instance that is configured.
pub struct Composed {
    store: Store<Host>,
    instance: Instance,
    /// Of each the subject and the message.
    pub warnings: Vec<(String, String)>,
}

pub struct Question {
    pub metadata: Option<String>,
    pub turn: String,
}

pub struct Answer {
    /// Its code.
    pub problem: Option<String>,
}

impl Composed {
    pub fn start(component: &HostedComponent, host: Host, options: &str) -> Self {
        let mut store = Store::new(&component.engine, host);
        let instance = component.linker.instantiate(&mut store, &component.component).unwrap();
        let mut composed = Self { store, instance, warnings: Vec::new() };
        let configured = composed.call("configure", &[text(options), Val::Enum("info".to_owned())]);
        let Val::Result(Ok(Some(configured))) = configured else { panic!("{configured:?}") };
        let Val::List(warnings) = member(&configured, "warnings") else { panic!("{configured:?}") };
        let told = |warning: &Val| (text_of(&member(warning, "subject")), text_of(&member(warning, "message")));
        composed.warnings = warnings.iter().map(told).collect();
        composed
    }

    pub fn host(&self) -> &Host {
        self.store.data()
    }

    pub fn ask(&mut self, session: &str, said: &str) -> Question {
        let entry = record(&[
            ("text", text(said)),
            ("metadata", metadata(session)),
            ("message-id", Val::Option(None)),
            ("tokens", Val::Option(None)),
            ("vector", Val::Option(None)),
            ("extras", Val::Option(None)),
        ]);
        let reply = self.call("question", &[entry]);
        assert_eq!(problem_of(&reply), None);
        let metadata = match member(&reply, "metadata") {
            Val::Option(Some(metadata)) => Some(text_of(&metadata)),
            _ => None,
        };
        Question { metadata, turn: text_of(&member(&reply, "turn")) }
    }

    pub fn say(&mut self, session: &str, said: &str, turn: &str, question: &str) -> Answer {
        let entry = record(&[
            ("text", text(said)),
            ("metadata", metadata(session)),
            ("turn", text(turn)),
            ("message-id", Val::Option(None)),
            ("question", record(&[("text", text(question)), ("tokens", Val::Option(None))])),
            ("tools", Val::List(Vec::new())),
            ("status", Val::Option(None)),
            ("tokens", Val::Option(None)),
            ("details", Val::Option(None)),
            ("extras", Val::Option(None)),
        ]);
        let reply = self.call("answer", &[entry]);
        Answer { problem: problem_of(&reply) }
    }

    fn call(&mut self, function: &str, parameters: &[Val]) -> Val {
        let lanes = self.instance.get_export_index(&mut self.store, None, "keepline:memory/lanes@0.3.0").unwrap();
        let function = self.instance.get_export_index(&mut self.store, Some(&lanes), function).unwrap();
        let function = self.instance.get_func(&mut self.store, function).unwrap();
        let mut results = [Val::Bool(false)];
        function.call(&mut self.store, parameters, &mut results).unwrap();
        let [result] = results;
        result
    }
}

fn text(text: &str) -> Val {
    Val::String(text.to_owned())
}

fn metadata(session: &str) -> Val {
    text(&serde_json::json!({"session_id": session}).to_string())
}

fn record(members: &[(&str, Val)]) -> Val {
    Val::Record(members.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
}

fn text_of(value: &Val) -> String {
    let Val::String(text) = value else { panic!("{value:?}") };
    text.clone()
}

fn member(record: &Val, name: &str) -> Val {
    let Val::Record(members) = record else { panic!("{record:?}") };
    members.iter().find(|(member, _)| member == name).map(|(_, value)| value.clone()).unwrap()
}

fn problem_of(reply: &Val) -> Option<String> {
    match member(reply, "problem") {
        Val::Option(Some(problem)) => Some(text_of(&member(&problem, "code"))),
        _ => None,
    }
}
