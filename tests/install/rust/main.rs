// What docs/start/winrt.md says of Rust: its declarations come before this, and windows-core's
// interfaces work on our objects.
use std::ptr::null_mut;
use windows_core::{interface, IUnknown, IUnknown_Vtbl, Interface, HRESULT};

#[interface("82BA7092-4C88-427D-A7BC-16DD93FEB67E")]
unsafe trait IRestrictedErrorInfo: IUnknown {
    fn GetErrorDetails(
        &self,
        description: *mut *mut u16,
        error: *mut HRESULT,
        restricted_description: *mut *mut u16,
        capability_sid: *mut *mut u16,
    ) -> HRESULT;
    fn GetReference(&self, reference: *mut *mut u16) -> HRESULT;
}

const E_BOUNDS: i32 = 0x8000000Bu32 as i32;

fn main() {
    let message: Vec<u16> = "no rate".encode_utf16().collect();
    let (mut description, mut text, mut sid) = (null_mut(), null_mut(), null_mut());
    let mut code = HRESULT(0);
    let mut taken = null_mut();

    unsafe {
        assert_eq!(RoOriginateErrorW(E_BOUNDS, message.len() as u32, message.as_ptr()), 1);
        assert_eq!(GetRestrictedErrorInfo(&mut taken), 0);
        let error = IRestrictedErrorInfo::from_raw(taken);
        assert!(error.GetErrorDetails(&mut description, &mut code, &mut text, &mut sid).is_ok());
        assert_eq!(code.0, E_BOUNDS);
        assert_eq!(std::slice::from_raw_parts(text, message.len()), message);
        let unknown: IUnknown = error.cast().expect("every object has it");
        assert_eq!(unknown.cast::<IRestrictedErrorInfo>().expect("and the way back"), error);
        assert_eq!(GetRestrictedErrorInfo(&mut taken), 1);
    }
    println!("ok");
}
