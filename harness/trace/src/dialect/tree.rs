//! Attributes flattened by dots and numbers, put together again.

use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// How deep a flattened name may nest; deeper parts are left in the attributes.
const MAX_DEPTH: usize = 16;

#[derive(Default)]
struct Node<'a> {
    value: Option<&'a Value>,
    // Ordered by number where the part is one, so that 10 comes after 9.
    children: BTreeMap<(u64, &'a str), Node<'a>>,
}

/// The value that `prefix.0.a.b`, `prefix.1.a`, ... were made of; `None` where there is none.
pub(super) fn unflatten(attributes: &Map<String, Value>, prefix: &str) -> Option<Value> {
    let mut root = Node::default();
    for (name, value) in attributes {
        let Some(rest) = name.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('.')) else { continue };
        let mut node = &mut root;
        for part in rest.split('.').take(MAX_DEPTH) {
            node = node.children.entry((part.parse().unwrap_or(u64::MAX), part)).or_default();
        }
        node.value = Some(value);
    }
    (!root.children.is_empty()).then(|| built(&root))
}

/// A node whose parts are all numbers is a list; gaps are closed, so a hostile index costs nothing.
fn built(node: &Node<'_>) -> Value {
    if node.children.is_empty() {
        return node.value.cloned().unwrap_or_default();
    }
    match node.children.keys().all(|(number, _)| *number != u64::MAX) {
        true => Value::Array(node.children.values().map(built).collect()),
        false => node.children.iter().map(|((_, name), child)| ((*name).to_owned(), built(child))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lists_and_maps_come_back_in_order_and_huge_indices_cost_nothing() {
        let flat = json!({"m.0.role": "user", "m.10.role": "c", "m.9.role": "b", "m.9.t.0.id": 1, "m.18446744073709551614.role": "z", "other": 1});
        assert_eq!(
            unflatten(flat.as_object().unwrap(), "m"),
            Some(json!([{"role": "user"}, {"role": "b", "t": [{"id": 1}]}, {"role": "c"}, {"role": "z"}]))
        );
        assert_eq!(unflatten(flat.as_object().unwrap(), "x"), None);
    }
}
