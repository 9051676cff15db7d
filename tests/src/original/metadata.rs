//! Metadata of which it is known what they say.

use fastrand::Rng;

/// The session that metadata name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// None, or what Python takes for none.
    Nothing,
    /// What can be no session id.
    Malformed,
    /// One.
    Session(String),
}

/// Metadata of which it is known what they say.
#[derive(Clone, Debug)]
pub struct Metadata {
    /// The JSON text, on one line.
    pub text: String,
    /// The session that counts.
    pub claim: Claim,
    /// The members that are nobody's memory; none: it is no object.
    kept: Option<Vec<String>>,
    has_context: bool,
}

impl Metadata {
    /// None at all.
    pub fn empty() -> Self {
        Self { text: "{}".into(), claim: Claim::Nothing, kept: Some(Vec::new()), has_context: false }
    }

    /// Any that a client could send, sensible or not.
    pub fn random(random: &mut Rng, sessions: &[&str]) -> Self {
        if random.u8(..12) == 0 {
            let text = random.choice(["null", "[]", "5", "\"session_id\"", "[\"memory_context\"]"]).unwrap().into();
            return Self { text, claim: Claim::Nothing, kept: None, has_context: false };
        }
        let mut members = Vec::new();
        let fillers = [
            "\"x\":[1,2]",
            "\"n\":1e999",
            "\"f\":1.50",
            "\"nan\":NaN",
            "\"deep\":{\"session_id\":\"a\",\"memory_context\":[Infinity,-Infinity]}",
            "\"t\":\"\\\"session_id\\\":\\\"a\\\"\"",
            "\"\\ud800\":\"\\ud800\"",
            "\"é\":12345678901234567890",
        ];
        for _ in 0..random.usize(..3) {
            members.push((Part::Filler, (*random.choice(&fillers).unwrap()).to_owned()));
        }
        if random.u8(..4) == 0 {
            for _ in 0..random.usize(1..3) {
                let name = random.choice(["memory_context", "\\u006demory_context", "memory\\u005fcontext"]).unwrap();
                let forged = random.choice(["{\"forged\":1}", "0", "[NaN,{}]", "\"}\""]).unwrap();
                members.push((Part::Context, format!("\"{name}\":{forged}")));
            }
        }
        let claims = if random.u8(..10) == 0 { 2 } else { usize::from(random.u8(..8) > 0) };
        for _ in 0..claims {
            let name = random.choice(["session_id", "session_id", "sess\\u0069on_id"]).unwrap();
            let (claim, raw) = claim(random, sessions);
            members.push((Part::Claim(claim), format!("\"{name}\":{raw}")));
        }
        random.shuffle(&mut members);
        let texts: Vec<&str> = members.iter().map(|(_, text)| &**text).collect();
        let claim = members.iter().rev().find_map(|(part, _)| match part {
            Part::Claim(claim) => Some(claim.clone()),
            _ => None,
        });
        let kept = members.iter().filter(|(part, _)| !matches!(part, Part::Context));
        Self {
            text: format!("{{{}}}", texts.join(",")),
            claim: claim.unwrap_or(Claim::Nothing),
            kept: Some(kept.map(|(_, text)| text.clone()).collect()),
            has_context: members.iter().any(|(part, _)| matches!(part, Part::Context)),
        }
    }

    /// The metadata to be sent on, byte for byte, when this is attached.
    pub(super) fn with(&self, context: &str) -> String {
        let mut members = self.kept.clone().unwrap_or_default();
        members.push(format!("\"memory_context\":{context}"));
        format!("{{{}}}", members.join(","))
    }

    /// The same without a client's memory; none: there is none in them.
    pub(super) fn stripped(&self) -> Option<String> {
        self.has_context.then(|| format!("{{{}}}", self.kept.clone().unwrap_or_default().join(",")))
    }
}

enum Part {
    Filler,
    Context,
    Claim(Claim),
}

fn claim(random: &mut Rng, sessions: &[&str]) -> (Claim, String) {
    match random.u8(..16) {
        0 => (Claim::Nothing, (*random.choice(&["null", "\"\"", "0", "-0.0", "false", "[]", "{ }"]).unwrap()).into()),
        1 => (
            Claim::Malformed,
            (*random.choice(&["5", "true", "\"a b\"", "\"a\\n\"", "\"é\"", "[0]", "\"\\ud800\"", "NaN"]).unwrap())
                .into(),
        ),
        _ => {
            let session = *random.choice(sessions).unwrap();
            (Claim::Session(session.to_owned()), format!("\"{session}\""))
        }
    }
}
