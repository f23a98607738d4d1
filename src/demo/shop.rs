//! The demo's tools: a small shop. Each runs as a program of its own, JSON in, JSON out, as any command tool.

use serde_json::{Value, json};

/// Items: code, pieces in stock, price in cents.
const ITEMS: [(&str, u32, u32); 4] =
    [("MUG-BLUE", 42, 1250), ("MUG-RED", 2, 1250), ("TEA-GREEN", 17, 890), ("TEA-BLACK", 0, 790)];

/// Orders: number, state, item.
const ORDERS: [(&str, &str, &str); 3] =
    [("1001", "shipped", "TEA-GREEN"), ("1002", "packed", "MUG-BLUE"), ("1003", "open", "MUG-RED")];

/// What a tool answers.
///
/// # Errors
/// What went wrong, for stderr.
pub(crate) fn answer(tool: &str, arguments: &Value) -> Result<Value, String> {
    let text = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    match tool {
        "check_stock" => {
            let (code, pieces, _) = item(&text("item_id"))?;
            Ok(json!({ "item_id": code, "in_stock": pieces }))
        }
        "look_up_price" => {
            let (code, _, cents) = item(&text("item_id"))?;
            Ok(json!({ "item_id": code, "price_cents": cents }))
        }
        "look_up_order" => {
            let wanted = text("order_id");
            let order = ORDERS.iter().find(|(number, ..)| *number == wanted);
            order.map(told).ok_or_else(|| format!("there is no order {wanted}"))
        }
        "list_orders" => Ok(ORDERS.iter().map(told).collect()),
        "reserve_stock" => Err("the reservation service is out of order".to_owned()),
        other => Err(format!("the shop has no tool `{other}`")),
    }
}

fn item(code: &str) -> Result<(&'static str, u32, u32), String> {
    let found = ITEMS.iter().find(|(one, ..)| *one == code);
    found.copied().ok_or_else(|| format!("there is no item {code}"))
}

fn told((number, state, item): &(&str, &str, &str)) -> Value {
    json!({ "order_id": number, "state": state, "item_id": item })
}
