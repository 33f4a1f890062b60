//! `read_file`: returns a part of a file, or of an earlier long output, with line numbers.

use std::fmt::Write as _;
use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use sortie_base::truncate::truncate;
use sortie_core::id::BlobId;
use sortie_core::ports::tool::{
    Image, Recovery, Tool, ToolAnswer, ToolContext, ToolFailure, ToolReply, ToolSpec, Touches,
};

use crate::arguments::{parse, spec, whole};
use crate::blocking::in_workspace;
use crate::confine::{Kept, Workspace};
use crate::picture::{MAX_PICTURE_BYTES, media_type};
use crate::text::is_binary;

/// The most bytes of a file that can be read.
const MAX_FILE_BYTES: u64 = 10 * 1024 * 1024;
/// The most lines that are returned.
const MAX_LINES: u64 = 2000;
/// The most characters of a line that are returned.
const MAX_LINE_CHARS: usize = 2000;
/// The most bytes of a result.
const MAX_ANSWER_BYTES: usize = 256 * 1024;
/// The prefix of the id of an earlier output.
const BLOB_PREFIX: &str = "blob:";

/// The `read_file` tool: reads files.
#[derive(Debug)]
pub struct ReadFile {
    spec: ToolSpec,
    kept: Arc<Kept>,
}

#[derive(Debug, Deserialize)]
struct Arguments {
    path: String,
    #[serde(default, deserialize_with = "whole")]
    offset: Option<u64>,
    #[serde(default, deserialize_with = "whole")]
    limit: Option<u64>,
}

impl ReadFile {
    /// Creates the tool, which does not access the kept places.
    pub(crate) fn keeping(kept: &Arc<Kept>) -> Self {
        Self {
            spec: spec(
                "read_file",
                "Read a text file as numbered lines (number, tab, text), at most 2000 per call; continue with offset. Shows PNG, JPEG, GIF, WebP. Path blob:<id> reads an earlier output that was truncated.",
                json!({
                    "type": "object",
                    "properties": {
                        "path": {"type": "string"},
                        "offset": {"type": "integer", "description": "from 1"},
                        "limit": {"type": "integer"}
                    },
                    "required": ["path"],
                    "additionalProperties": false
                }),
            ),
            kept: Arc::clone(kept),
        }
    }
}

impl Default for ReadFile {
    fn default() -> Self {
        Self::keeping(&Arc::default())
    }
}

#[async_trait]
impl Tool for ReadFile {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn touches(&self) -> Touches {
        Touches::Reads
    }

    fn recovery(&self) -> Recovery<'_> {
        Recovery::Repeatable
    }

    async fn run(&self, context: &ToolContext<'_>, arguments: Value) -> ToolReply {
        let arguments: Arguments = parse(arguments)?;
        let answer = match arguments.path.strip_prefix(BLOB_PREFIX) {
            Some(id) => {
                let bytes = read_blob(context, id).await?;
                answer(bytes, &arguments)?
            }
            None => {
                in_workspace(context, &self.kept, move |workspace, _| {
                    answer(read(workspace, &arguments.path)?, &arguments)
                })
                .await?
            }
        };
        Ok(answer.into())
    }
}

async fn read_blob(context: &ToolContext<'_>, id: &str) -> Result<Vec<u8>, ToolFailure> {
    let blob = context
        .blobs
        .read_blob(&BlobId::from_stored(id.trim()))
        .await;
    blob.ok_or_else(|| {
        ToolFailure::new(format!(
            "There is no earlier output {BLOB_PREFIX}{id}. Copy the id exactly from the truncated output."
        ))
    })
}

fn read(workspace: &Workspace, path: &str) -> Result<Vec<u8>, ToolFailure> {
    workspace.read(&workspace.locate(path)?, MAX_FILE_BYTES)
}

fn answer(bytes: Vec<u8>, arguments: &Arguments) -> Result<ToolAnswer, ToolFailure> {
    match media_type(&bytes) {
        Some(media_type) => picture(bytes, media_type, &arguments.path),
        None => render(&bytes, arguments).map(ToolAnswer::text),
    }
}

fn picture(
    bytes: Vec<u8>,
    media_type: &'static str,
    path: &str,
) -> Result<ToolAnswer, ToolFailure> {
    if bytes.len() > MAX_PICTURE_BYTES {
        return Err(ToolFailure::new(format!(
            "{path} is a picture of {} bytes, and {MAX_PICTURE_BYTES} can be shown at most. Use exec and an image program to make it smaller.",
            bytes.len()
        )));
    }
    Ok(ToolAnswer {
        text: format!("({path}: {media_type}, {} bytes)", bytes.len()),
        images: vec![Image {
            media_type: media_type.to_owned(),
            bytes,
        }],
        ..ToolAnswer::default()
    })
}

fn render(bytes: &[u8], arguments: &Arguments) -> Result<String, ToolFailure> {
    let path = &arguments.path;
    if is_binary(bytes) {
        return Err(ToolFailure::new(format!(
            "{path} is a binary file of {} bytes. Inspect it with exec and a program such as file or strings.",
            bytes.len()
        )));
    }
    if bytes.is_empty() {
        return Ok(format!("({path} is empty)"));
    }
    let text = String::from_utf8_lossy(bytes);
    let first = arguments.offset.unwrap_or(1).max(1);
    let limit = arguments.limit.unwrap_or(MAX_LINES).clamp(1, MAX_LINES);
    let total = text.lines().count() as u64;
    if first > total {
        return Err(ToolFailure::new(format!(
            "{path} has only {total} lines. Use an offset from 1 to {total}."
        )));
    }
    let (mut answer, last) = numbered(&text, first, limit);
    if first > 1 || last < total {
        let next = last + 1;
        let more = if last < total {
            format!("; continue with offset={next}")
        } else {
            String::new()
        };
        // Writing to a String cannot fail.
        write!(answer, "(lines {first}-{last} of {total}{more})").ok();
    }
    Ok(answer)
}

/// Returns the lines with their numbers, and the number of the last line that fits.
fn numbered(text: &str, first: u64, limit: u64) -> (String, u64) {
    let mut answer = String::new();
    let mut last = first;
    let wanted = (1_u64..)
        .zip(text.lines())
        .skip_while(|(number, _)| *number < first);
    for (number, line) in wanted.take(usize::try_from(limit).unwrap_or(usize::MAX)) {
        let line = format!("{number}\t{}\n", truncate(line, MAX_LINE_CHARS));
        if !answer.is_empty() && answer.len() + line.len() > MAX_ANSWER_BYTES {
            break;
        }
        answer.push_str(&line);
        last = number;
    }
    (answer, last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Delegation, Folder, answer_with, call};

    async fn check(content: &[u8], arguments: Value, expected: &str) {
        let folder = Folder::with(&[("d/x", "")]);
        folder.write("f", content);
        let reply = call(&ReadFile::default(), &folder, arguments).await;
        let text = reply.unwrap_or_else(|failure| format!("! {failure}"));
        assert_eq!(text, expected);
    }

    #[tokio::test]
    async fn reads_lines() {
        check(b"a\nb\n", json!({"path": "f"}), "1\ta\n2\tb\n").await;
        check(b"a\nb", json!({"path": "./f"}), "1\ta\n2\tb\n").await;
        check(b"", json!({"path": "f"}), "(f is empty)").await;
        check(b"a\r\nb\r\n", json!({"path": "f"}), "1\ta\n2\tb\n").await;
        check(
            b"a\nb\nc\nd\n",
            json!({"path": "f", "offset": 2, "limit": 2}),
            "2\tb\n3\tc\n(lines 2-3 of 4; continue with offset=4)",
        )
        .await;
        check(
            b"a\nb\n",
            json!({"path": "f", "offset": 2}),
            "2\tb\n(lines 2-2 of 2)",
        )
        .await;
        check(
            b"\xff\xfe ok\n",
            json!({"path": "f"}),
            "1\t\u{fffd}\u{fffd} ok\n",
        )
        .await;
        check(
            "分析\n".as_bytes(),
            json!({"path": "f", "limit": 1.0}),
            "1\t分析\n",
        )
        .await;
    }

    #[tokio::test]
    async fn failures_explain_what_to_do_next() {
        let check_failure = async |content: &[u8], path: &str, expected: &str| {
            check(content, json!({"path": path}), expected).await;
        };
        check_failure(b"\0\x01", "f", "! f is a binary file of 2 bytes. Inspect it with exec and a program such as file or strings.").await;
        check_failure(
            b"",
            "d",
            "! d is a directory. Use list_dir to see its content.",
        )
        .await;
        check_failure(b"", "d/xx", "! d/xx does not exist. Did you mean d/x?").await;
        check_failure(
            b"",
            "qqqq",
            "! qqqq does not exist. Find the right path with list_dir or glob.",
        )
        .await;
        check_failure(
            b"",
            "f/x",
            "! A part of f/x is not a directory. Find the right path with list_dir or glob.",
        )
        .await;
        check(
            b"a\n",
            json!({"path": "f", "offset": 9}),
            "! f has only 1 lines. Use an offset from 1 to 1.",
        )
        .await;
        check_failure(
            b"",
            "blob:00",
            "! There is no earlier output blob:00. Copy the id exactly from the truncated output.",
        )
        .await;
    }

    #[tokio::test]
    async fn is_bounded() {
        let folder = Folder::with(&[]);
        let read = async |content: &[u8]| {
            folder.write("f", content);
            call(&ReadFile::default(), &folder, json!({"path": "f"})).await
        };
        let long_line = "分".repeat(MAX_LINE_CHARS + 1);
        let expected = format!("1\t{}…\n", "分".repeat(MAX_LINE_CHARS));
        assert_eq!(read(long_line.as_bytes()).await.unwrap(), expected);
        let many = "x\n".repeat(5000);
        let text = read(many.as_bytes()).await.unwrap();
        assert!(
            text.ends_with("(lines 1-2000 of 5000; continue with offset=2001)"),
            "{text}"
        );
        let wide = format!("{}\n", "x".repeat(MAX_LINE_CHARS)).repeat(1000);
        let text = read(wide.as_bytes()).await.unwrap();
        assert!(text.len() < MAX_ANSWER_BYTES + 100, "{}", text.len());
        assert!(
            text.ends_with("of 1000; continue with offset=131)"),
            "{}",
            &text[text.len() - 60..]
        );
        let too_large = vec![b'x'; MAX_FILE_BYTES as usize + 1];
        let failure = read(&too_large).await.unwrap_err().to_string();
        assert_eq!(
            failure,
            "f is larger than 10 MiB. Search it with grep, or use exec and a command that prints a part."
        );
    }

    #[tokio::test]
    async fn shows_pictures() {
        let folder = Folder::with(&[]);
        let png = b"\x89PNG\r\n\x1a\nrest".to_vec();
        folder.write("p.txt", &png);
        let arguments = json!({"path": "p.txt"});
        let answer = answer_with(
            &ReadFile::default(),
            &folder,
            arguments.clone(),
            &Delegation::default(),
        )
        .await
        .unwrap();
        assert_eq!(answer.text, "(p.txt: image/png, 12 bytes)");
        assert_eq!(
            answer.images,
            [Image {
                media_type: "image/png".to_owned(),
                bytes: png.clone()
            }]
        );
        let mut large = png;
        large.resize(MAX_PICTURE_BYTES + 1, 0);
        folder.write("p.txt", &large);
        let failure = call(&ReadFile::default(), &folder, arguments)
            .await
            .unwrap_err();
        assert!(failure.to_string().contains("make it smaller"), "{failure}");
    }

    #[tokio::test]
    async fn reads_earlier_outputs() {
        let folder = Folder::with(&[]);
        let id = folder.keep_blob(b"one\ntwo\n");
        let path = format!("blob:{id}");
        let text = call(
            &ReadFile::default(),
            &folder,
            json!({"path": path, "offset": 2}),
        )
        .await;
        assert_eq!(text.unwrap(), "2\ttwo\n(lines 2-2 of 2)");
    }
}
