//! Catches panics, so that a panic fails only the request it happens in.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

/// `None` if the future panicked.
pub(super) async fn catch<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(value)) => Poll::Ready(Some(value)),
        Err(_) => Poll::Ready(None),
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_caught_whenever_it_comes() {
        let late = async {
            tokio::task::yield_now().await;
            panic!("on purpose");
        };
        assert_eq!(catch::<()>(late).await, None);
        assert_eq!(catch(async { 7 }).await, Some(7));
    }
}
