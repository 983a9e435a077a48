import Glibc

/// Errors between the daemon and the kernel.
public enum CaptureError: Error, Hashable, Sendable {
    /// The daemon lacks a right. This ends the start with exit code 77.
    case permission(needs: String)
    /// The kernel does not offer `feature`. The daemon tries the next method; tests are skipped with the reason.
    case unsupported(feature: String, reason: String)
    /// The kernel refuses to load or attach this BPF program.
    case refused(program: String, reason: String)
    /// A system or libbpf call on `object` failed with `errno`.
    case system(call: String, object: String, errno: Int32)
    /// The kernel returned something of an unexpected shape.
    case malformed(String)
}

extension CaptureError: CustomStringConvertible {
    public var description: String {
        switch self {
        case .permission(let needs): needs
        case .unsupported(let feature, let reason): "\(feature): \(reason)"
        case .refused(let program, let reason): "BPF program \(program): \(reason)"
        case .system(let call, let object, let errno):
            "\(call)(\(object)): \(CaptureError.text(ofErrno: errno))"
        case .malformed(let what): what
        }
    }

    static func text(ofErrno number: Int32) -> String {
        var buffer = [CChar](repeating: 0, count: 128)
        guard strerror_r(number, &buffer, buffer.count) == 0 else { return "error \(number)" }
        return String(decoding: buffer.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }
}

/// Calls `body` and reads `errno` if the call failed.
///
/// - Parameter number: An `errno` after which `body` is called again, as it is after `EINTR`.
/// - Throws: ``CaptureError/system(call:object:errno:)`` if `body` returns a negative number.
@discardableResult
package func check<Result: FixedWidthInteger & SignedInteger>(
    _ call: String,
    _ object: @autoclosure () -> String = "",
    goingOnAfter number: Int32 = EINTR,
    _ body: () -> Result
) throws(CaptureError) -> Result {
    while true {
        let result = body()
        if result >= 0 { return result }
        let found = errno
        if found == EINTR || found == number { continue }
        throw .system(call: call, object: object(), errno: found)
    }
}
