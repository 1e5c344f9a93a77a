// Types that Rust makes, or a function has for itself, behind addresses that are only numbers.
use std::future::Future;
use std::io::Read;
use std::pin::Pin;
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};

mod a {
    pub struct Never;
    impl std::future::Future for Never {
        type Output = ();
        fn poll(self: std::pin::Pin<&mut Self>, _: &mut std::task::Context<'_>) -> std::task::Poll<()> {
            std::task::Poll::Pending
        }
    }
    pub async fn f(n: u64) -> u64 {
        Never.await;
        n
    }
}

fn nothing() -> RawWaker {
    static TABLE: RawWakerVTable = RawWakerVTable::new(|_| nothing(), |_| {}, |_| {}, |_| {});
    RawWaker::new(std::ptr::null(), &TABLE)
}

pub static mut FUTURE: usize = 0;
pub static mut CLOSURE: usize = 0;
pub static mut LOCAL: usize = 0;

fn keep<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}

fn show<T>(text: &str, at: *const T) {
    println!("{}\t{:p}\t{}", text, at, std::mem::size_of::<T>());
}

fn main() {
    struct Local {
        deep: u32,
    }
    let future = keep(a::f(41));
    let by = 77u32;
    let closure = keep(move |x: u32| x + by);
    let local = keep(Local { deep: 5 });
    let waker = unsafe { Waker::from_raw(nothing()) };
    let polled = unsafe { Pin::new_unchecked(&mut *future).poll(&mut Context::from_waker(&waker)) };

    assert!(polled == Poll::Pending);
    unsafe {
        FUTURE = future as usize;
        CLOSURE = closure as usize;
        LOCAL = local as usize;
        assert!(FUTURE + CLOSURE + LOCAL + (*closure)(1) as usize > 0);
    }
    show("*(loc_types::a::f::{async_fn_env#0} *)FUTURE", future);
    show("*('loc_types::a::f::{async_fn_env#0}' *)FUTURE", future);
    show("*('a::f::{async_fn_env#0}' *)FUTURE", future);
    show("*(loc_types::main::{closure_env#0} *)CLOSURE", closure);
    show("*('loc_types::main::{closure_env#0}' *)CLOSURE", closure);
    show("*(Local *)LOCAL", local);
    show("((main::Local *)LOCAL)->deep", unsafe { &(*local).deep });
    println!("done");
    let _ = std::io::stdin().read(&mut [0u8; 1]);
}
