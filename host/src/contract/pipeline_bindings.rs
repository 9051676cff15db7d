//! The calls of what pipelines export, as `bindgen!` makes them.

wasmtime::component::bindgen!({
    path: ["wit", "wit/pipelines/world.wit"],
    inline: "
        package keepline:library;
        world pipelines {
            export keepline:pipelines/configuration@0.3.0;
            export keepline:pipelines/definitions@0.3.0;
            export keepline:pipelines/runs@0.3.0;
            export keepline:pipelines/datasets@0.3.0;
        }
    ",
    world: "keepline:library/pipelines",
    exports: { default: async },
    with: {
        "keepline:common/shared@0.3.0": crate::contract::generated::keepline::common::shared,
        "keepline:host/log@0.3.0": crate::contract::generated::keepline::host::log,
    },
    additional_derives: [PartialEq, Eq, PartialOrd, Ord, Hash],
});
