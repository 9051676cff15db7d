//! What a bucket does, held against a plain model.
