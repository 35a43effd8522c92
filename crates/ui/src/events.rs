//! The stream of server-sent events of a client.
//!
//! # References
//! WHATWG, *HTML Living Standard*, section 9.2, for the format.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use futures_util::stream;

use crate::history::{Cursor, History, Next};

/// Time without an event after which a comment shows that the connection lives.
const PULSE: Duration = Duration::from_secs(10);
/// Bytes that are sent at a time, about.
const CHUNK_BYTES: usize = 32 << 10;

/// The events behind that of the identifier `last`, and all that follow.
pub(crate) fn body(history: &Arc<History>, last: Option<&str>) -> Body {
    Body::from_stream(stream::unfold(history.cursor(last), |mut cursor| async {
        let chunk = chunk(&mut cursor).await?;
        Some((Ok::<_, Infallible>(chunk), cursor))
    }))
}

/// The next events as text; `None` behind the last one.
async fn chunk(cursor: &mut Cursor) -> Option<String> {
    let mut text = String::new();
    loop {
        match cursor.take() {
            Next::Event(id, event) => {
                text += &format!("id: {id}\nevent: {}\ndata: {}\n\n", event.name, event.data);
            }
            Next::Skipped(count) => text += &format!("event: skipped\ndata: {{\"events\":{count}}}\n\n"),
            Next::Nothing if text.is_empty() => {
                if tokio::time::timeout(PULSE, cursor.wait()).await.is_err() {
                    return Some(": nothing new\n\n".to_owned());
                }
            }
            Next::Closed if text.is_empty() => return None,
            Next::Nothing | Next::Closed => return Some(text),
        }
        if text.len() >= CHUNK_BYTES {
            return Some(text);
        }
    }
}
