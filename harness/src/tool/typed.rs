//! A tool from a Rust function: its schemas are derived from the types it takes and gives.
//!
//! Place in the flow: programs that embed the loop add these to a [`super::Toolbox`]; the built-in tools are made
//! of them too. What a doc comment says of a field is what the model reads of that parameter.

use super::{Effect, Risk, Tool, ToolSpec};
use crate::policy::Permit;
use futures::future::BoxFuture;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt;
use trace::fact::Fault;
use trace::outcome::FaultClass;

/// How long a typed tool may take unless it says otherwise, in milliseconds.
pub const TIMEOUT_MS: u64 = 30_000;

type Body = dyn Fn(&Permit) -> BoxFuture<'static, Result<String, Fault>> + Send + Sync;

/// A Rust function as a tool.
pub struct Typed {
    spec: ToolSpec,
    body: Box<Body>,
    wants_situation: bool,
    asks: bool,
    sandbox: bool,
}

impl fmt::Debug for Typed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Typed").field("spec", &self.spec).finish_non_exhaustive()
    }
}

impl Typed {
    /// A tool of this name that runs `body`.
    ///
    /// A `String` is the answer as it is; anything else becomes JSON text, and its type the output schema. The
    /// future cannot borrow the permit: take what it needs, such as the idempotency key, before it is made.
    pub fn new<Arguments, Answer, Running>(
        name: impl Into<String>,
        description: impl Into<String>,
        risk: Risk,
        effect: Effect,
        body: impl Fn(Arguments, &Permit) -> Running + Send + Sync + 'static,
    ) -> Self
    where
        Arguments: DeserializeOwned + JsonSchema,
        Answer: Serialize + JsonSchema,
        Running: Future<Output = Result<Answer, Fault>> + Send + 'static,
    {
        let spec = ToolSpec {
            name: name.into(),
            description: description.into(),
            input_schema: object(schema::<Arguments>(SchemaSettings::draft2020_12())),
            risk,
            effect,
            timeout_ms: TIMEOUT_MS,
            output_schema: Some(schema::<Answer>(SchemaSettings::draft2020_12().for_serialize()))
                .filter(promises_something),
        };
        let body = move |permit: &Permit| -> BoxFuture<'static, Result<String, Fault>> {
            match serde_json::from_str(permit.arguments()) {
                Ok(arguments) => {
                    let running = body(arguments, permit);
                    Box::pin(async move { text(&running.await?) })
                }
                // The schema let it pass, so the type wants more than its schema can say.
                Err(why) => {
                    let fault =
                        Fault::new(FaultClass::Permanent, format!("the arguments cannot be used: {why}"));
                    Box::pin(std::future::ready(Err(fault)))
                }
            }
        };
        Self { spec, body: Box::new(body), wants_situation: false, asks: false, sandbox: false }
    }

    /// The same tool, which may ask a person: its function answers with an [`Output`](super::output::Output).
    #[must_use]
    pub const fn asking(mut self) -> Self {
        self.asks = true;
        self
    }

    /// The same tool, whose function starts a program and holds it in a sandbox where its permit says so.
    #[must_use]
    pub const fn in_sandbox(mut self) -> Self {
        self.sandbox = true;
        self
    }

    /// The same tool under another name.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.spec.name = name.into();
        self
    }

    /// The same tool with another description.
    #[must_use]
    pub fn described(mut self, description: impl Into<String>) -> Self {
        self.spec.description = description.into();
        self
    }

    /// The same tool, shown the run it is called in.
    #[must_use]
    pub const fn in_situation(mut self) -> Self {
        self.wants_situation = true;
        self
    }

    /// The same tool with another time limit, in milliseconds.
    #[must_use]
    pub const fn within_ms(mut self, timeout_ms: u64) -> Self {
        self.spec.timeout_ms = timeout_ms;
        self
    }
}

impl Tool for Typed {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn wants_situation(&self) -> bool {
        self.wants_situation
    }

    fn may_ask(&self) -> bool {
        self.asks
    }

    fn can_sandbox(&self) -> Result<(), String> {
        match self.sandbox {
            true => crate::sandbox::available(),
            false => Err("it is no program".to_owned()),
        }
    }

    fn call<'a>(&'a self, permit: &'a Permit) -> BoxFuture<'a, Result<String, Fault>> {
        (self.body)(permit)
    }
}

/// The schema of a type, in one piece and without the names of our types.
fn schema<T: JsonSchema>(settings: SchemaSettings) -> Value {
    let settings = settings.with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    if let Some(object) = schema.as_object_mut() {
        object.remove("title");
    }
    schema
}

/// Arguments are an object on every wire: a type that takes anything says no more than that.
fn object(schema: Value) -> Value {
    match schema {
        Value::Object(mut members) => {
            members.entry("type").or_insert_with(|| "object".into());
            Value::Object(members)
        }
        _ => serde_json::json!({ "type": "object" }),
    }
}

/// Plain text and values of any type say nothing that could be checked.
fn promises_something(schema: &Value) -> bool {
    schema
        .as_object()
        .is_some_and(|object| !object.is_empty() && object.get("type") != Some(&Value::from("string")))
}

fn text<T: Serialize>(answer: &T) -> Result<String, Fault> {
    match serde_json::to_value(answer) {
        Ok(Value::String(text)) => Ok(text),
        Ok(value) => Ok(value.to_string()),
        Err(why) => {
            Err(Fault::new(FaultClass::Permanent, format!("the answer cannot be written as JSON: {why}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{permit, ran};
    use super::*;
    use serde::Deserialize;

    #[derive(Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Order {
        /// Code of the item.
        code: String,
        /// How many; one where absent.
        #[serde(default)]
        count: Option<u32>,
    }

    #[derive(Serialize, JsonSchema)]
    struct Receipt {
        code: String,
        count: u32,
        key: String,
    }

    fn order() -> Typed {
        Typed::new("order", "Orders an item.", Risk::Write, Effect::Idempotent, |order: Order, permit| {
            let key = permit.idempotency_key().to_owned();
            async move { Ok(Receipt { code: order.code, count: order.count.unwrap_or(1), key }) }
        })
    }

    #[test]
    fn the_model_reads_the_types_and_their_comments() {
        insta::assert_snapshot!(serde_json::to_string_pretty(&order().spec().input_schema).unwrap(), @r#"
        {
          "additionalProperties": false,
          "properties": {
            "code": {
              "description": "Code of the item.",
              "type": "string"
            },
            "count": {
              "default": null,
              "description": "How many; one where absent.",
              "format": "uint32",
              "minimum": 0,
              "type": [
                "integer",
                "null"
              ]
            }
          },
          "required": [
            "code"
          ],
          "type": "object"
        }
        "#);
        assert_eq!(
            order().spec().output_schema.as_ref().unwrap()["required"],
            serde_json::json!(["code", "count", "key"])
        );
    }

    #[tokio::test]
    async fn an_object_is_answered_as_json_text_with_the_key_of_its_call() {
        let permit = permit(order().spec(), r#"{"code":"A-7"}"#);
        let answer: Value = serde_json::from_str(&order().call(&permit).await.unwrap()).unwrap();
        let wanted = serde_json::json!({"code": "A-7", "count": 1, "key": permit.idempotency_key()});
        assert_eq!(answer, wanted);
    }

    #[tokio::test]
    async fn text_is_answered_as_it_is_and_promises_no_schema() {
        let say = Typed::new("say", "Says it.", Risk::Read, Effect::Pure, |order: Order, _| async move {
            Ok(order.code)
        });
        assert_eq!(say.spec().output_schema, None);
        assert_eq!(ran(&say, r#"{"code":"a \"b\""}"#).await.unwrap(), "a \"b\"");
    }

    #[tokio::test]
    async fn arguments_that_the_type_refuses_never_reach_the_function() {
        let fault = ran(&order(), r#"{"code":"A-7","count":-1}"#).await.unwrap_err();
        assert!(fault.message.contains("cannot be used"), "{}", fault.message);
    }
}
