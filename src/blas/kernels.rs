//! Which of OpenBLAS's kernels are used: those for this processor.
//!
//! An OpenBLAS that is older than the processor does not know it, and may take the kernels of one
//! twenty years older: Debian 12's (0.3.21) multiplies at 14 GF/s on an Intel Xeon of 2024 that can
//! do 69. What the processor can is asked for, and where OpenBLAS has chosen kernels without
//! vectors of four doubles it is told to choose again, as `OPENBLAS_CORETYPE` would tell it from
//! outside. Who has set that variable is obeyed.
//!
//! It is done when the program, or the library that this is a part of, is loaded: no product may
//! run meanwhile, and all are to be made by the same kernels, which differ in the last digits.

/// Called by the loader, after OpenBLAS has chosen: a library is ready before those that need it.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = {
    extern "C" fn at_load() {
        x86::choose_again();
    }
    at_load
};

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod x86 {
    use std::ffi::{CStr, c_char, c_int, c_void};

    // SAFETY: as OpenBLAS's cblas.h declares it.
    unsafe extern "C" {
        fn openblas_get_corename() -> *const c_char;
    }

    /// Kernels that know no vectors of four doubles.
    const OLD: [&str; 11] = [
        "Generic",
        "Katmai",
        "Coppermine",
        "Northwood",
        "Prescott",
        "Banias",
        "Core2",
        "Penryn",
        "Dunnington",
        "Nehalem",
        "Athlon",
    ];

    const VARIABLE: &CStr = c"OPENBLAS_CORETYPE";

    pub(super) fn choose_again() {
        let Some(better) = better_than(&current(), best()) else { return };
        if std::env::var_os("OPENBLAS_CORETYPE").is_some() {
            return;
        }
        let Some((quit, init)) = selection() else { return };
        // SAFETY: the functions are OpenBLAS's own, taken from the library that is loaded; its
        // threads wait, since nothing has been multiplied yet. The variable is read by `init` only.
        unsafe {
            libc::setenv(VARIABLE.as_ptr(), better.as_ptr(), 1);
            quit();
            init();
            libc::unsetenv(VARIABLE.as_ptr());
        }
    }

    /// The kernels that OpenBLAS has chosen.
    pub(super) fn current() -> String {
        // SAFETY: the name is a constant of the library's.
        unsafe { CStr::from_ptr(openblas_get_corename()) }.to_string_lossy().into_owned()
    }

    /// The kernels that this processor can run.
    fn best() -> Option<&'static CStr> {
        let avx512 = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512cd");
        let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        match (avx512, avx2) {
            (true, _) => Some(c"SkylakeX"),
            (false, true) => Some(c"Haswell"),
            (false, false) => None,
        }
    }

    /// What to choose instead of the current kernels, if they are old and there are better ones.
    pub(super) fn better_than(current: &str, best: Option<&'static CStr>) -> Option<&'static CStr> {
        best.filter(|_| OLD.iter().any(|old| current.eq_ignore_ascii_case(old)))
    }

    type Function = unsafe extern "C" fn();

    /// How the loaded OpenBLAS chooses its kernels; none where it was built for one processor.
    fn selection() -> Option<(Function, Function)> {
        // SAFETY: looks up who has a function of ours that is linked from there, and asks that
        // library, which stays loaded, for two more. They take nothing and give nothing.
        unsafe {
            let mut info: libc::Dl_info = std::mem::zeroed();
            let known = openblas_get_corename as *const c_void;
            if libc::dladdr(known, &mut info) == 0 || info.dli_fname.is_null() {
                return None;
            }
            let flags: c_int = libc::RTLD_LAZY | libc::RTLD_NOLOAD;
            let library = libc::dlopen(info.dli_fname, flags);
            if library.is_null() {
                return None;
            }
            let find = |name: &CStr| {
                let found = libc::dlsym(library, name.as_ptr());
                (!found.is_null()).then(|| std::mem::transmute::<*mut c_void, Function>(found))
            };
            Some((find(c"gotoblas_dynamic_quit")?, find(c"gotoblas_dynamic_init")?))
        }
    }
}

#[cfg(all(test, target_os = "linux", target_arch = "x86_64"))]
mod tests {
    use super::x86;

    #[test]
    fn kernels_of_old_processors_are_not_kept_on_new_ones() {
        assert_eq!(x86::better_than("Prescott", Some(c"SkylakeX")), Some(c"SkylakeX"));
        assert_eq!(x86::better_than("Zen", Some(c"Haswell")), None);
        assert_eq!(x86::better_than("Cooperlake", Some(c"SkylakeX")), None);
        assert_eq!(x86::better_than("Nehalem", None), None);
        let vectors = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        let asked = std::env::var_os("OPENBLAS_CORETYPE").is_some();
        assert!(!vectors || asked || x86::better_than(&x86::current(), Some(c"x")).is_none());
    }
}
