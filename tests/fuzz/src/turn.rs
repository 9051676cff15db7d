//! A turn state that a hostile host hands back: an answer lands in the session that it names, in the life that
//! it names, or nowhere.

use keepline_filter::contract::VALUES;
use keepline_filter::entry::metadata::{EntryMetadata, EntrySession};
use keepline_filter::entry::turn_token::PlainTurnToken;
use keepline_filter::text::ids::SessionIds;
use keepline_filter::{AnswerEntry, Config, Effect, Filter, QuestionEntry};

use crate::{is_session, test_host::TestHost, texts};

pub fn holds(data: &[u8]) {
    let Some(parts) = texts(data) else { return };
    let (state, text, metadata) = (part(&parts, 0), part(&parts, 1), part(&parts, 2));
    // Each session with the life that a question would have seen.
    let host = TestHost::new();
    let filter = Filter::new(&host, Config { max_history: 2, ..Config::default() });
    for session in ["s", "other"] {
        let reply = filter.question(&QuestionEntry {
            metadata: &format!("{{\"session_id\":\"{session}\"}}"),
            ..QuestionEntry::default()
        });
        let turn = PlainTurnToken::parse(&reply.turn).unwrap();
        assert_eq!((turn.session, turn.generation.is_some()), (session, true));
    }

    let turn = PlainTurnToken::parse(state);
    if let Some(turn) = turn {
        assert!(is_session(turn.session));
        assert_eq!(PlainTurnToken::write(turn.session, turn.generation.unwrap_or_default()), state);
    }
    let read = EntryMetadata::parse(metadata, false, SessionIds::Strict);
    let named = match &read.session {
        EntrySession::Named(session) => Some(&**session),
        EntrySession::Malformed { .. } => None,
        EntrySession::None => turn.map(|turn| turn.session),
    };
    let before = host.buckets();
    let reply = filter.answer(&AnswerEntry { text, metadata, turn: state, ..AnswerEntry::default() });
    let after = host.buckets();
    for (session, bucket) in &after {
        let was = before.get(session);
        if reply.effect == Effect::Stored && named == Some(session) {
            let stored: String = serde_json::from_str(&bucket.maps[VALUES]["last_answer"]).unwrap();
            assert_eq!(stored, text);
            // In the life that it names, if it names one of this session.
            if let Some(generation) = turn.filter(|turn| turn.session == session).and_then(|turn| turn.generation) {
                assert_eq!(bucket.generation, generation);
                assert!(was.is_some(), "{session} was revived");
            }
        } else {
            let was = was.expect("a session that nobody named");
            assert!(was.maps == bucket.maps && was.logs == bucket.logs, "{session}");
        }
    }
    assert!(before.keys().all(|session| after.contains_key(session)));
    match named {
        Some(_) => assert!(matches!(reply.effect, Effect::Stored | Effect::Ended | Effect::Limited), "{reply:?}"),
        None => assert!(matches!(reply.effect, Effect::Passed | Effect::Ignored), "{reply:?}"),
    }
    for (_, _, message) in host.lines.borrow().iter() {
        assert!(message.len() < 2000, "{message}");
    }
}

fn part<'a>(parts: &[&'a str], number: usize) -> &'a str {
    parts.get(number).copied().unwrap_or_default()
}
