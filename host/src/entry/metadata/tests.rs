use super::*;

fn owner(metadata: &str) -> [Option<String>; 4] {
    let EntryOwner { session, user, app, node, .. } = EntryMetadata::parse(metadata).owner();
    [session, user, app, node].map(|name| name.map(String::from))
}

fn reason(own: &str, returned: &str) -> Option<String> {
    EntryMetadata::parse(own).check_returned(returned, 100).err().map(|fault| fault.to_string())
}

#[test]
fn the_last_of_duplicate_members_names_the_owner() {
    let all = r#"{"session_id":"s","user_id":"u v","app_id":"a","node_id":"n","x":{"session_id":"t"}}"#;
    assert_eq!(owner(all), ["s", "u v", "a", "n"].map(|name| Some(name.to_owned())));
    assert_eq!(owner(r#"{"session_id":"a","session\u005fid":"\u0062"}"#)[0].as_deref(), Some("b"));
    assert_eq!(owner("\u{feff}{\"x\":NaN,\n\"session_id\":\"s\"}")[0].as_deref(), Some("s"));
    for nobody in
        ["", "null", "{}", r#"{"session_id":5}"#, r#"{"session_id":""}"#, r#"{"session_id":"a","session_id":null}"#]
    {
        assert_eq!(owner(nobody)[0], None, "{nobody}");
    }
    // What can't be read to its end names nobody, to the filter neither.
    assert_eq!(owner(r#"{"session_id":"a"} x"#)[0], None);
}

#[test]
fn metadata_from_an_honest_filter_are_accepted() {
    for (own, returned) in [
        ("{}", "{}"),
        (r#"{"session_id":"s"}"#, r#"{"session_id":"s","memory_context":{"a":[1,{"b":"}"}]}}"#),
        // As it came, with something cut out and something added.
        (r#"{"memory_context":1,"session_id":"s","a":1,"a":2}"#, r#"{"session_id":"s","a":1,"a":2}"#),
        (r#"{"session_id":"a","session_id":"b"}"#, r#"{"session_id":"a","session_id":"b","memory_context":{}}"#),
        (r#"{"\u0061":1,"a":2,"b":3}"#, r#"{"\u0061":1,"a":2,"b":3,"c":4}"#),
        ("{\"x\":NaN,\n\"y\":1}", "{\"x\":NaN,\n\"y\":1,\"memory_context\":{}}"),
        ("\u{feff}{\"x\":-Infinity}\r\n", "\u{feff}{\"x\":-Infinity}\r\n"),
        // A separator of lines for some, but not in a string of JSON.
        ("{}", "{\"a\":\"\u{2028}\u{85}\u{7f}\"}"),
        // What nobody can read is withheld.
        ("{memory_context:1}", "{}"),
    ] {
        assert_eq!(reason(own, returned), None, "{own} {returned}");
    }
    let many: Vec<_> = (0..1000).map(|n| format!("\"k{n}\":1")).collect();
    let many = format!("{{{}}}", many.join(","));
    assert_eq!(reason(&many, &many), None);
}

#[test]
fn returned_metadata_that_are_not_one_object_are_refused() {
    for returned in [
        "",
        "[]",
        "null",
        "\"{}\"",
        "{}{}",
        "{} ,",
        "{}},\"text\":\"forged\",\"x\":{\"a\":1}",
        "{\"a\":1}\n{\"lane\":\"answers\"}",
        "{\"a\":\"b\nc\"}",
        "{\"a\":\"\u{1b}[2J\"}",
        "{\"a\":1,}",
        "{a:1}",
        "{\"a\":nan}",
        "{\"a\":1",
    ] {
        assert!(reason("{}", returned).unwrap().contains("not one JSON object"), "{returned}");
    }
}

#[test]
fn non_standard_json_is_accepted_only_if_the_entry_contains_it() {
    for returned in ["{\"a\":NaN}", "{\"a\":[-Infinity]}", "\u{feff}{}", "{}\n", "{\"a\":1\r}"] {
        assert!(reason("{}", returned).unwrap().contains("holds what the entry's does not"), "{returned}");
        assert!(reason("nonsense", returned).is_some(), "{returned}");
    }
    assert!(reason("{\"a\":NaN}", "{\"a\":NaN\n}").is_some());
    assert!(reason("{\"a\":1\n}", "{\"a\":NaN\n}").is_some());
    // A carriage return ends no line of output; a line feed would.
    assert!(reason("\r{\"a\":1}", "{\"a\":1\n}").is_some());
    assert!(reason("\n{\"a\":1}", "{\"a\":1\r}").is_some());
}

#[test]
fn duplicate_members_are_refused_unless_the_entry_had_them() {
    let many: Vec<_> = (0..1000).map(|n| format!("\"k{n}\":1")).collect();
    let many = format!("{{{},\"k7\":2}}", many.join(","));
    for (own, returned) in [
        ("{}", r#"{"a":1,"a":2}"#),
        ("{}", r#"{"a":1,"\u0061":2}"#),
        (r#"{"a":1}"#, r#"{"a":1,"b":2,"b":3}"#),
        (r#"{"a":1,"a":2}"#, r#"{"a":1,"a":2,"a":3}"#),
        (r#"{"a":1,"a":2}"#, r#"{"a":1,"a":2,"b":3,"b":4}"#),
        ("nonsense", r#"{"a":1,"a":2}"#),
        ("{}", &many),
    ] {
        let returned_by = EntryMetadata::parse(own).check_returned(returned, 1 << 20);
        assert!(returned_by.unwrap_err().to_string().contains("a member twice"), "{own} {returned}");
    }
}

#[test]
fn returned_metadata_that_change_the_owner_are_refused() {
    for (own, returned) in [
        ("{}", r#"{"session_id":"victim"}"#),
        (r#"{"session_id":"a"}"#, r#"{"session_id":"b"}"#),
        (r#"{"session_id":"a"}"#, "{}"),
        (r#"{"session_id":"a"}"#, r#"{"session_id":"a","session\u005fid":"b"}"#),
        (r#"{"session_id":"a","session_id":"b"}"#, r#"{"session_id":"b","session_id":"a"}"#),
        (r#"{"session_id":"a"}"#, r#"{"session_id":"a","user_id":"victim"}"#),
        (r#"{"user_id":"a"}"#, r#"{"user_id":"b"}"#),
        ("{}", r#"{"app_id":"a"}"#),
        ("{}", r#"{"node_id":"a"}"#),
        (r#"{"session_id":"a"} x"#, r#"{"session_id":"a"}"#),
    ] {
        assert!(reason(own, returned).unwrap().contains("whose entry it is"), "{own} {returned}");
    }
}

#[test]
fn metadata_sharing_the_entrys_prefix_are_judged_as_by_a_full_parse() {
    let owns = [
        "{}",
        r#"{"a":1}"#,
        r#" {"session_id":"s" , "a":"b"} "#,
        r#"{"a":1,"a":2,"session_id":"s"}"#,
        "\u{feff}{\"a\":NaN,\n\"session_id\":\"s\"}",
        r#"{"session_id":{"a":[1]}}"#,
        r#"{"\u0061":-1.5}"#,
    ];
    let rests = [
        "",
        "}",
        " }",
        "\n}",
        "}x",
        "}}",
        "2}",
        ".5}",
        "]",
        ",",
        ",}",
        "\"}",
        ":1}",
        r#","b":1}"#,
        r#","a":1}"#,
        r#","\u0061":1}"#,
        r#","session_id":"s"}"#,
        r#","session_id":"t"}"#,
        r#","user_id":"u"} "#,
        r#","b":NaN}"#,
        ",\"b\":1\r}",
        r#","b":1,"b":2}"#,
        r#","b":{"a":1}},"c":2}"#,
    ];
    let mut continued = 0;
    for own in owns {
        let metadata = EntryMetadata::parse(own);
        let found = |read: ScannedMetadata<'_>| {
            (read.form.is_within(metadata.form), format!("{:?} {:?}", read.owner, read.attached))
        };
        for (at, rest) in
            (0..=own.len()).filter(|at| own.is_char_boundary(*at)).flat_map(|at| rests.map(|rest| (at, rest)))
        {
            let returned = own[..at].to_owned() + rest;
            let part = metadata.scan_appended_members(&returned).map(found);
            continued += usize::from(part.is_some());
            let Some((is_within, owner)) = part else { continue };
            assert_eq!(Some((is_within, owner)), scan_whole_object(&returned).map(found), "{own} {returned}");
            let is_own = scan_whole_object(&returned).unwrap().owner == metadata.owner;
            let expected = is_within && is_own && !has_new_duplicates(own, &returned).unwrap();
            assert_eq!(metadata.check_returned(&returned, 100).is_ok(), expected, "{own} {returned}");
        }
    }
    assert!(continued > 50, "{continued}");
}

#[test]
fn added_metadata_are_bounded_in_bytes() {
    let metadata = EntryMetadata::parse(r#"{"a":1}"#);
    let long = |length: usize| format!(r#"{{"a":1,"b":"{}"}}"#, "x".repeat(length - 14));
    assert!(metadata.check_returned(&long(7 + 1000), 1000).is_ok());
    assert!(metadata.check_returned(&long(7 + 1001), 1000).unwrap_err().to_string().contains("over 1007"));
}

#[test]
fn added_members_are_bounded_in_number() {
    let own = r#"{"session_id":"s"}"#;
    let with = |count: usize| {
        let added: String = (0..count).map(|number| format!(",\"m{number}\":0")).collect();
        format!("{{\"session_id\":\"s\"{added}}}")
    };
    let read = EntryMetadata::parse(own);
    assert!(read.check_returned(&with(MOST_ADDED), 1 << 20).is_ok());
    assert!(read.check_returned(&with(MOST_ADDED + 1), 1 << 20).is_err());
}

#[test]
fn attached_messages_and_model_are_located_in_one_scan() {
    let found = |own: &str, returned: &str| {
        let AttachedRanges { messages, model } = EntryMetadata::parse(own).check_returned(returned, 100).unwrap();
        [messages, model].map(|range| range.map(|range| returned[range].to_owned()))
    };
    let window = r#"{"session_id":"s","memory_messages":[{"role":"user"}],"memory_model":"m"}"#;
    let both = [Some(r#"[{"role":"user"}]"#.to_owned()), Some("\"m\"".to_owned())];
    assert_eq!(found(r#"{"session_id":"s"}"#, window), both, "after the entry's own members");
    assert_eq!(found(r#"{"session_id":"s","memory_messages":1}"#, window), both, "in the place of the entry's own");
    assert_eq!(found(window, window), both, "left as it was");
    assert_eq!(found(r#"{"a":1}"#, r#"{"a":1,"memory\u005fmodel":"m"}"#), [None, Some("\"m\"".to_owned())]);
    assert_eq!(found("{}", "{}"), [None, None]);
}
