import CLinux

/// A file system of the kernel's that nobody else sees, and that goes away with its descriptor.
enum DetachedMount {
    /// - Parameter type: As in `/proc/filesystems`.
    /// - Returns: Its root directory.
    /// - Throws: ``CaptureError/system(call:object:errno:)``: before Linux 5.2, without CAP_SYS_ADMIN, or no such file system.
    static func open(_ type: String) throws(CaptureError) -> FileHandle {
        let context = FileHandle(owning: try check("fsopen", type) { linux_fsopen(type) })
        try check("fsconfig", type) { linux_fsconfig_create(context.descriptor) }
        return FileHandle(owning: try check("fsmount", type) { linux_fsmount(context.descriptor) })
    }
}
