//! Every route, request and event of `routes.json` is in a case, and in the service's table, with the scope that it says.

use std::{collections::BTreeSet, fs};

use keepline_pipelines::value::Value;

use crate::{
    CASES,
    case_data::{list, text, texts},
    client::{Request, send},
    folder,
    world::World,
};

fn read(name: &str) -> Value {
    Value::parse(&fs::read_to_string(folder().join(name)).unwrap()).unwrap()
}

fn all_routes() -> Vec<Value> {
    list(&read("routes.json"), "routes").to_vec()
}

#[test]
fn every_case_is_played() {
    let files =
        fs::read_dir(folder().join("cases")).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let files: BTreeSet<String> = files.map(|file| file.trim_end_matches(".json").to_owned()).collect();
    assert_eq!(files, CASES.iter().map(|name| (*name).to_owned()).collect());
}

#[test]
fn every_route_request_and_event_is_in_a_case() {
    let covered = CASES.iter().flat_map(|name| texts(&read(&format!("cases/{name}.json")), "covers"));
    let covered: BTreeSet<String> = covered.collect();
    let names: BTreeSet<String> = all_routes().iter().map(|route| text(route, "name")).chain(["ws".into()]).collect();
    assert_eq!(covered, names);
}

#[tokio::test]
async fn every_route_request_and_event_is_in_the_services_table() {
    let mut world = World::build(&[]).await;
    let request = Request { method: "GET", path: "/openapi.json", headers: Vec::new(), body: None };
    let described = send(world.address, &request).await.json().unwrap();
    let of_socket = described.member("x-socket").unwrap();
    let (requests, events) = (texts(of_socket, "requests"), texts(of_socket, "events"));
    for route in all_routes() {
        let name = text(&route, "name");
        match name.split_once(' ').unwrap() {
            ("ws", kind) => assert!(requests.contains(&kind.to_owned()), "{name}"),
            ("event", kind) => assert!(events.contains(&kind.to_owned()), "{name}"),
            (method, path) => {
                // What a parameter is called is the service's matter.
                let same = |own: &str| {
                    let parts = own.split('/').zip(path.split('/'));
                    own.split('/').count() == path.split('/').count()
                        && parts
                            .into_iter()
                            .all(|(own, other)| own == other || (own.starts_with('{') && other.starts_with(':')))
                };
                let paths = described.member("paths").and_then(Value::as_object).unwrap();
                let found =
                    paths.iter().filter(|(own, _)| same(own)).find_map(|(_, row)| row.member(&method.to_lowercase()));
                let found = found.unwrap_or_else(|| panic!("{name} is not in the table"));
                assert_eq!(text(found, "x-scope"), text(&route, "scope"), "{name}");
            }
        }
    }
    let sent: BTreeSet<_> =
        all_routes().iter().filter_map(|route| Some(text(route, "name").strip_prefix("ws ")?.to_owned())).collect();
    assert_eq!(sent, requests.into_iter().collect());
    world.stop();
}
