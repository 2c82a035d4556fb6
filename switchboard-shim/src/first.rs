//! Waits for the first of two futures. `tokio::select!` would do that too, and bring a compiler for macros
//! along: five crates.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Either<A, B> {
    First(A),
    Second(B),
}

/// The result of the future that is ready first; of `a` if both are. The other one is dropped.
pub(crate) async fn first<A: Future, B: Future>(a: A, b: B) -> Either<A::Output, B::Output> {
    let (mut a, mut b) = (pin!(a), pin!(b));
    poll_fn(|context| {
        if let Poll::Ready(result) = a.as_mut().poll(context) {
            return Poll::Ready(Either::First(result));
        }
        b.as_mut().poll(context).map(Either::Second)
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test]
    async fn the_first_that_is_ready_counts() {
        assert_eq!(first(ready(1), ready(2)).await, Either::First(1));
        assert_eq!(first(pending::<u8>(), ready(2)).await, Either::Second(2));
        assert_eq!(first(async { tokio::task::yield_now().await }, ready(2)).await, Either::Second(2));
    }
}
