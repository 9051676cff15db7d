//! A user who is forgotten while others are at work: nothing is recalled of what is deleted.

use super::*;
use keepline_filter::admin;

const DOG: &str = "Our dog is called Bello.";
const CAT: &str = "Our cat is called Mia.";

/// Two sessions: of one, a part was copied; of the other, nothing.
fn begun(fake: &Fake) {
    let filter = filter(fake, OPTIONS);
    talk(&filter, "anna", "one", DOG);
    for session in ["one", "two"] {
        let asked = ask(&filter, CAT, &of("anna", session));
        reply(&filter, CAT, "Well.", &asked.turn);
    }
}

fn copy(fake: &Fake) {
    for session in ["one", "two"] {
        finish(&super::super::super::filter(fake, OPTIONS), &mut work(session, "recall"));
    }
}

/// What the user has of the two sessions.
fn is_known(fake: &Fake) -> bool {
    let theirs = format!("{:?}", fake.buckets.borrow()["User/anna"].logs);
    [DOG, CAT].iter().any(|text| theirs.contains(text))
}

#[test]
fn a_copier_at_any_call_leaves_nothing_of_a_deleted_session() {
    for copied in 1..20 {
        for back in copied..20 {
            let fake = Fake::new();
            begun(&fake);
            let begin = fake.transactions.get();
            let mut number = 0;
            fake.before_each(move |fake, _| {
                number += 1;
                if number == copied {
                    copy(fake);
                }
                if number == back {
                    talk(&super::super::super::filter(fake, OPTIONS), "anna", "back", "Our bird is called Bo.");
                }
            });
            let done = admin::forget_user(&sessions(&fake), "anna").unwrap();
            *fake.hook.borrow_mut() = None;
            assert!(fake.transactions.get() > begin);
            let is_there = |session: &str| fake.buckets.borrow().contains_key(session);
            assert_eq!((is_there("one"), is_there("two"), is_known(&fake)), (false, false, false), "{copied} {back}");
            // Whoever came back is in their lists, and is told.
            assert_eq!(is_there("back"), done.remaining > 0, "{copied} {back} {done:?}");
            if is_there("back") {
                finish(&filter(&fake, OPTIONS), &mut work("back", "recall"));
                assert_eq!(recalled(&filter(&fake, OPTIONS), &of("anna", "new"), "bird?")[0], "Our bird is called Bo.");
            }
            while admin::forget_user(&sessions(&fake), "anna").unwrap().remaining > 0 {}
            assert_eq!(fake.buckets.borrow()["User/anna"].maps["user"].len(), 2);
        }
    }
}

#[test]
fn a_task_at_work_while_its_user_is_forgotten_brings_nothing_back() {
    for call in 1..10 {
        let fake = Fake::new();
        begun(&fake);
        let begin = fake.transactions.get();
        fake.before_each(move |fake, count| {
            if count == begin + call {
                while admin::forget_user(&sessions(fake), "anna").unwrap().remaining > 0 {}
            }
        });
        copy(&fake);
        *fake.hook.borrow_mut() = None;
        assert!(fake.transactions.get() < begin + call || !is_known(&fake), "{call}");
    }
}
