//! POSTs in flight. A single POST, the usual case, is polled by the loop itself; further ones get a task
//! each. A task for every call would be a sixth of the shim's work per call.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::task::{AbortHandle, JoinSet};

pub(super) struct Posts<T> {
    single: Option<Single<T>>,
    /// The result of the single POST, if it ended while no result was wanted.
    finished_single: Option<T>,
    /// How many POSTs were polled by the loop; numbers the tickets.
    singles: u64,
    tasks: JoinSet<T>,
}

struct Single<T> {
    number: u64,
    post: Pin<Box<dyn Future<Output = T> + Send>>,
}

/// Identifies a POST.
#[derive(Debug)]
pub(super) enum Ticket {
    Single(u64),
    Task(AbortHandle),
}

impl<T: Send + 'static> Posts<T> {
    pub(super) fn new() -> Self {
        Self { single: None, finished_single: None, singles: 0, tasks: JoinSet::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.tasks.len() + usize::from(self.single.is_some())
    }

    /// Starts a POST. It makes progress when [`Posts::next`] is polled, or soon after.
    pub(super) fn start(&mut self, post: impl Future<Output = T> + Send + 'static) -> Ticket {
        if !self.is_empty() {
            return Ticket::Task(self.tasks.spawn(post));
        }
        self.singles += 1;
        self.single = Some(Single { number: self.singles, post: Box::pin(post) });
        Ticket::Single(self.singles)
    }

    /// Drops a POST and its connection. Has no effect on one that has ended.
    pub(super) fn abort(&mut self, ticket: &Ticket) {
        match ticket {
            Ticket::Single(number) => drop(self.single.take_if(|single| single.number == *number)),
            Ticket::Task(task) => task.abort(),
        }
    }

    /// The result of the next POST that ends; pending while there is none. If not `wanted`, the POSTs still
    /// make progress but this never resolves. Cancel safe.
    pub(super) async fn next(&mut self, wanted: bool) -> T {
        poll_fn(|cx| {
            if wanted {
                return self.poll(cx);
            }
            if let Poll::Ready(posted) = self.poll_single(cx) {
                self.finished_single = Some(posted);
            }
            Poll::Pending
        })
        .await
    }

    /// The result of a task that has already ended.
    pub(super) fn take_finished(&mut self) -> Option<T> {
        while let Some(ended) = self.tasks.try_join_next() {
            // An aborted task was cancelled; nothing waits for it.
            if let Ok(posted) = ended {
                return Some(posted);
            }
        }
        None
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<T> {
        if let Some(posted) = self.finished_single.take() {
            return Poll::Ready(posted);
        }
        if let Poll::Ready(posted) = self.poll_single(cx) {
            return Poll::Ready(posted);
        }
        while let Poll::Ready(Some(ended)) = self.tasks.poll_join_next(cx) {
            if let Ok(posted) = ended {
                return Poll::Ready(posted);
            }
        }
        Poll::Pending
    }

    fn poll_single(&mut self, cx: &mut Context<'_>) -> Poll<T> {
        let Some(single) = &mut self.single else { return Poll::Pending };
        let posted = std::task::ready!(single.post.as_mut().poll(cx));
        self.single = None;
        Poll::Ready(posted)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.single.is_none() && self.finished_single.is_none() && self.tasks.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::task::Waker;

    use super::*;

    fn now<T: Send + 'static>(posts: &mut Posts<T>) -> Option<T> {
        match posts.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(posted) => Some(posted),
            Poll::Pending => None,
        }
    }

    #[tokio::test]
    async fn all_posts_end_in_the_loop_or_in_a_task() {
        let mut posts = Posts::new();
        for number in 0..3 {
            posts.start(ready(number));
        }
        let mut ended = vec![posts.next(true).await, posts.next(true).await, posts.next(true).await];
        ended.sort_unstable();
        assert_eq!(ended, [0, 1, 2]);
        assert!(posts.is_empty() && now(&mut posts).is_none());
    }

    #[tokio::test]
    async fn a_post_ends_while_its_result_is_not_wanted() {
        let mut posts = Posts::new();
        posts.start(ready(1));
        let patience = std::time::Duration::from_millis(10);
        assert!(tokio::time::timeout(patience, posts.next(false)).await.is_err());
        assert!(posts.single.is_none() && !posts.is_empty());
        assert_eq!(now(&mut posts), Some(1));
        assert!(posts.is_empty());
    }

    #[tokio::test]
    async fn abort_drops_only_its_own_post() {
        let mut posts = Posts::new();
        let first = posts.start(ready(1));
        assert!(matches!(first, Ticket::Single(_)));
        assert_eq!(posts.next(true).await, 1);
        let second = posts.start(pending());
        // The first POST has ended; its ticket must not abort the second.
        posts.abort(&first);
        assert!(!posts.is_empty());
        let third = posts.start(pending());
        assert!(matches!(third, Ticket::Task(_)));
        posts.abort(&second);
        posts.abort(&third);
        tokio::task::yield_now().await;
        assert!(now(&mut posts).is_none() && posts.is_empty());
    }
}
