//! Empty: only the features that its manifest asks for matter.
