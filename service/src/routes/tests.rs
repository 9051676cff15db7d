//! The table of routes and its description.

use serde_json::{Value, json};

use super::{openapi, table};

#[test]
fn every_route_is_described_and_names_schemas_that_exist() {
    let schemas = openapi::schemas();
    let routes = table();
    for route in &routes {
        let found = openapi::descriptions::description_of(route);
        let found = found.unwrap_or_else(|| panic!("{} {} is not described", route.method, route.path));
        let forms = [found.also_takes, found.also_sends].into_iter().flatten().map(|(_, schema)| schema);
        for name in [found.request, found.reply].into_iter().chain(forms).filter(|name| !name.is_empty()) {
            assert!(schemas.contains_key(name), "{name}");
        }
    }
    assert_eq!(routes.len(), openapi::descriptions::count(), "what is described and no route");
    let document = openapi::describe(&routes);
    assert_eq!(document["paths"]["/keepline/v1/sessions"]["delete"]["x-scope"], "admin");
    assert_eq!(document["paths"]["/openapi.json"]["get"]["security"], json!([]));
    // What a row takes is in its description, and a 412 with it.
    for route in routes.iter().filter(|route| !route.conditions.is_empty()) {
        let operation = &document["paths"][route.path][route.method.as_str().to_lowercase()];
        let headers = operation["parameters"].as_array().unwrap().iter().filter(|it| it["in"] == "header");
        let headers: Vec<_> = headers.filter_map(|header| header["name"].as_str()).collect();
        assert!(route.conditions.iter().all(|name| headers.contains(name)), "{} {}", route.method, route.path);
        assert!(operation["responses"]["412"].is_object(), "{} {}", route.method, route.path);
    }
    let forms = |path: &str, method: &str, content: &str| {
        let content = document["paths"][path][method].pointer(content).and_then(|content| content.as_object());
        content.unwrap_or_else(|| panic!("{method} {path}")).keys().cloned().collect::<Vec<_>>()
    };
    let lines = ["application/json", "application/x-ndjson"];
    assert_eq!(forms("/keepline/v1/answers", "post", "/requestBody/content"), lines);
    assert_eq!(forms("/keepline/v1/answers", "post", "/responses/200/content"), lines);
    let definition = forms("/keepline/v1/definitions/{kind}/{definition}", "put", "/requestBody/content");
    assert_eq!(definition, ["application/json", "application/yaml"]);
}

#[test]
fn links_lead_to_routes_that_exist_and_tell_where_all_of_their_path_comes_from() {
    let routes = table();
    let document = openapi::describe(&routes);
    let operations = document["paths"].as_object().unwrap().iter().flat_map(|(path, methods)| {
        methods.as_object().unwrap().iter().map(move |(method, operation)| (path, method, operation))
    });
    let mut count = 0;
    for (path, method, operation) in operations {
        let replies = operation["responses"].as_object().unwrap().values();
        for link in replies.filter_map(|reply| reply["links"].as_object()).flat_map(|links| links.values()) {
            let place = link["operationRef"].as_str().unwrap().trim_start_matches('#');
            let place = place.replace("%7B", "{").replace("%7D", "}");
            let to = document.pointer(&place).unwrap_or_else(|| panic!("{method} {path} leads to {place}"));
            let (own, theirs) = (operation["parameters"].as_array().unwrap(), to["parameters"].as_array().unwrap());
            let has = |all: &[Value], place: &str, name: &str| {
                all.iter().any(|one| one["in"] == place && one["name"] == name)
            };
            let given = link["parameters"].as_object().unwrap();
            for (parameter, from) in given {
                let (kind, name) = parameter.split_once('.').unwrap();
                assert!(has(theirs, kind, name), "{method} {path}: {parameter} is none of {place}");
                if let Some((kind, name)) = from.as_str().unwrap().trim_start_matches("$request.").split_once('.')
                    && from.as_str().unwrap().starts_with("$request.")
                {
                    assert!(has(own, kind, name), "{method} {path} has no {from}");
                }
            }
            // A new key is up to who follows the link.
            let names = theirs.iter().filter(|one| one["in"] == "path" && one["name"] != "key");
            for name in names.map(|one| one["name"].as_str().unwrap()) {
                assert!(
                    given.contains_key(&format!("path.{name}")),
                    "{method} {path}: nothing gives {name} of {place}"
                );
            }
            count += 1;
        }
    }
    let described: usize = openapi::links::LINKS.iter().map(|link| link.to.len()).sum();
    assert_eq!(count, described, "links from routes that do not exist");
}
