//! The table of routes and its description.

use serde_json::json;

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
