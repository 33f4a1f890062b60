//! `todo_write`: updates the todo list of the run.

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use sortie_core::message::{Todo, TodoStatus};
use sortie_core::ports::tool::{
    Recovery, Spelling, Tool, ToolAnswer, ToolContext, ToolFailure, ToolReply, ToolSpec, Touches,
};

use crate::arguments::{parse, spec};

/// The most todos of a list.
const MAX_TODOS: usize = 50;
/// The most characters of one todo.
const MAX_CONTENT_CHARS: usize = 300;

const SPELLINGS: &[Spelling] = &[Spelling {
    name: "TodoWrite",
    renames: &[("items", "todos")],
}];

/// The `todo_write` tool: replaces the todo list.
#[derive(Debug)]
pub struct TodoWrite {
    spec: ToolSpec,
}

#[derive(Debug, Deserialize)]
struct Arguments {
    todos: Vec<Todo>,
}

impl Default for TodoWrite {
    fn default() -> Self {
        Self {
            spec: spec(
                "todo_write",
                "Replace your todo list, for work of three or more steps. Keep one in_progress; mark each completed when done.",
                json!({
                    "type": "object",
                    "properties": {"todos": {"type": "array", "items": {
                        "type": "object",
                        "properties": {
                            "content": {"type": "string"},
                            "status": {"enum": ["pending", "in_progress", "completed"]}
                        },
                        "required": ["content", "status"]
                    }}},
                    "required": ["todos"],
                    "additionalProperties": false
                }),
            ),
        }
    }
}

#[async_trait]
impl Tool for TodoWrite {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn touches(&self) -> Touches {
        Touches::Nothing
    }

    fn recovery(&self) -> Recovery<'_> {
        Recovery::Repeatable
    }

    fn spellings(&self) -> &[Spelling] {
        SPELLINGS
    }

    async fn run(&self, _context: &ToolContext<'_>, arguments: Value) -> ToolReply {
        let arguments: Arguments = parse(arguments)?;
        let todos: Vec<Todo> = arguments.todos.iter().map(trimmed).collect();
        check(&todos)?;
        Ok(ToolAnswer {
            text: render(&todos),
            todos: Some(todos),
            ..ToolAnswer::default()
        }
        .into())
    }
}

fn trimmed(todo: &Todo) -> Todo {
    Todo {
        content: todo
            .content
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" "),
        status: todo.status,
    }
}

fn check(todos: &[Todo]) -> Result<(), ToolFailure> {
    let problem = if todos.len() > MAX_TODOS {
        format!(
            "The list has {} todos; keep at most {MAX_TODOS}.",
            todos.len()
        )
    } else if todos.iter().any(|todo| todo.content.is_empty()) {
        "A todo has no content; say what is to be done.".to_owned()
    } else if todos
        .iter()
        .any(|todo| todo.content.chars().count() > MAX_CONTENT_CHARS)
    {
        format!("A todo is longer than {MAX_CONTENT_CHARS} characters; make it shorter.")
    } else if count(todos, TodoStatus::InProgress) > 1 {
        "More than one todo is in_progress; keep one and make the others pending.".to_owned()
    } else {
        return Ok(());
    };
    Err(ToolFailure::new(format!(
        "{problem} The list was not changed."
    )))
}

fn render(todos: &[Todo]) -> String {
    if todos.is_empty() {
        return "The todo list is empty.".to_owned();
    }
    let mut lines: Vec<String> = todos.iter().map(line).collect();
    let done = count(todos, TodoStatus::Completed);
    lines.push(format!("({done}/{} completed)", todos.len()));
    lines.join("\n")
}

fn line(todo: &Todo) -> String {
    let mark = match todo.status {
        TodoStatus::Pending => "[ ]",
        TodoStatus::InProgress => "[>]",
        TodoStatus::Completed => "[x]",
    };
    format!("{mark} {}", todo.content)
}

fn count(todos: &[Todo], status: TodoStatus) -> usize {
    todos.iter().filter(|todo| todo.status == status).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Folder, answer};

    async fn check(todos: Value, expected: &str) {
        let reply = answer(
            &TodoWrite::default(),
            &Folder::with(&[]),
            json!({"todos": todos}),
        )
        .await;
        match reply {
            Ok(answer) => {
                assert_eq!(answer.text, expected);
                let count = todos.as_array().unwrap().len();
                assert_eq!(answer.todos.unwrap().len(), count);
            }
            Err(failure) => assert_eq!(format!("! {failure}"), expected),
        }
    }

    #[tokio::test]
    async fn renders_and_bounds_the_list() {
        let todo = |content: &str, status: &str| json!({"content": content, "status": status});
        check(json!([]), "The todo list is empty.").await;
        check(
            json!([
                todo("look", "completed"),
                todo(" 写\n代码 ", "in_progress"),
                todo("test", "pending")
            ]),
            "[x] look\n[>] 写 代码\n[ ] test\n(1/3 completed)",
        )
        .await;
        check(
            json!([todo("a", "in_progress"), todo("b", "in_progress")]),
            "! More than one todo is in_progress; keep one and make the others pending. The list was not changed.",
        )
        .await;
        check(
            json!([todo(" ", "pending")]),
            "! A todo has no content; say what is to be done. The list was not changed.",
        )
        .await;
        check(
            json!([todo(&"分".repeat(300), "pending")]),
            &format!("[ ] {}\n(0/1 completed)", "分".repeat(300)),
        )
        .await;
        check(
            json!([todo(&"分".repeat(301), "pending")]),
            "! A todo is longer than 300 characters; make it shorter. The list was not changed.",
        )
        .await;
        let many: Vec<Value> = (0..51).map(|_| todo("x", "pending")).collect();
        check(
            json!(many),
            "! The list has 51 todos; keep at most 50. The list was not changed.",
        )
        .await;
    }
}
