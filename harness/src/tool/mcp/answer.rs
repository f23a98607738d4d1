//! What a server answered, as text for the model.

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use trace::fact::Fault;
use trace::outcome::FaultClass;

/// The text of a result. An error of the tool is a fault that says what the tool said.
///
/// A tool that declares an output schema is taken at its structured content, because that is what the schema
/// speaks of; for the others it stands in only where there is no other content.
pub(super) fn text(result: CallToolResult, declares_schema: bool) -> Result<String, Fault> {
    let is_error = result.is_error.unwrap_or(false);
    let structured = result.structured_content.filter(|_| declares_schema || result.content.is_empty());
    let text = match structured {
        Some(value) if !is_error => value.to_string(),
        _ => result.content.iter().map(shown).collect::<Vec<_>>().join("\n"),
    };
    match is_error {
        false => Ok(text),
        true if text.is_empty() => Err(Fault::new(FaultClass::Permanent, "the tool failed and said nothing")),
        true => Err(Fault::new(FaultClass::Permanent, text)),
    }
}

/// A block as text; what is none is noted with its kind and size.
fn shown(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => note("image", &image.mime_type, image.data.len()),
        ContentBlock::Audio(audio) => note("audio", &audio.mime_type, audio.data.len()),
        ContentBlock::Resource(embedded) => match &embedded.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => format!("[resource {uri}]\n{text}"),
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                let kind = mime_type.as_deref().unwrap_or("of unknown type");
                format!("[resource {uri}]\n{}", note("content", kind, blob.len()))
            }
            _ => "[a resource of a kind that is not known here]".to_owned(),
        },
        ContentBlock::ResourceLink(link) => {
            let about = link.description.as_deref().map_or_else(String::new, |about| format!(": {about}"));
            format!("[link to resource {} ({}){about}]", link.uri, link.name)
        }
        _ => "[content of a kind that is not known here]".to_owned(),
    }
}

/// Base64 holds three bytes in four characters.
fn note(what: &str, kind: &str, base64_chars: usize) -> String {
    format!("[{what} {kind}, about {} bytes, not shown]", base64_chars / 4 * 3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(result: Value, declares_schema: bool) -> Result<String, String> {
        text(serde_json::from_value(result).unwrap(), declares_schema).map_err(|fault| fault.message)
    }

    #[test]
    fn text_is_kept_and_everything_else_is_noted() {
        let result = json!({"content": [
            {"type": "text", "text": "two"},
            {"type": "image", "data": "AAAAAAAA", "mimeType": "image/png"},
            {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}},
            {"type": "resource", "resource": {"uri": "file:///b", "blob": "AAAA"}},
            {"type": "resource_link", "uri": "file:///c", "name": "c"},
        ]});
        insta::assert_snapshot!(read(result, false).unwrap(), @r"
        two
        [image image/png, about 6 bytes, not shown]
        [audio audio/wav, about 3 bytes, not shown]
        [resource file:///a]
        inside
        [resource file:///b]
        [content of unknown type, about 3 bytes, not shown]
        [link to resource file:///c (c)]
        ");
    }

    #[test]
    fn structured_content_speaks_where_a_schema_is_declared_or_nothing_else_is_there() {
        let both = json!({"content": [{"type": "text", "text": "t"}], "structuredContent": {"n": 1}});
        assert_eq!(read(both.clone(), true), Ok(r#"{"n":1}"#.to_owned()));
        assert_eq!(read(both, false), Ok("t".to_owned()));
        assert_eq!(
            read(json!({"content": [], "structuredContent": {"n": 1}}), false),
            Ok(r#"{"n":1}"#.to_owned())
        );
    }

    #[test]
    fn an_error_of_the_tool_is_a_fault_that_says_what_it_said() {
        let failed = json!({"content": [{"type": "text", "text": "no such file"}], "isError": true});
        assert_eq!(read(failed, true), Err("no such file".to_owned()));
        assert!(read(json!({"content": [], "isError": true}), false).unwrap_err().contains("said nothing"));
    }
}
