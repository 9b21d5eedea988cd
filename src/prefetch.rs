//! Asking the processor to bring memory near before it is read, so that several such waits are one.
//!
//! Invariant: it changes nothing but the time that a later read takes.

/// Bytes that come together.
pub(crate) const LINE_BYTES: usize = 64;

/// Has the line of an address brought near, which need not be one that may be read.
#[inline(always)]
pub(crate) fn prefetch<T>(at: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every processor of this architecture has the instruction. It reads nothing that
        // a program could see and faults on no address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}
