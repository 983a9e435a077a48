import CLinux

/// A mount of one of the kernel's file systems that no other process sees. The mount goes away with its descriptor.
enum DetachedMount {
    /// - Parameter type: As in `/proc/filesystems`.
    /// - Returns: The root directory of the mount.
    /// - Throws: ``CaptureError/system(call:object:errno:)``: before Linux 5.2, without CAP_SYS_ADMIN, or if there is
    ///   no such file system.
    static func open(_ type: String) throws(CaptureError) -> OwnedDescriptor {
        let context = OwnedDescriptor(owning: try check("fsopen", type) { linux_fsopen(type) })
        try check("fsconfig", type) { linux_fsconfig_create(context.descriptor) }
        return OwnedDescriptor(owning: try check("fsmount", type) { linux_fsmount(context.descriptor) })
    }
}
