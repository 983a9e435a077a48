import Glibc

/// What can go wrong between us and the kernel.
public enum CaptureError: Error, Hashable, Sendable {
    /// The daemon lacks a right. Ends the start with exit code 77.
    case permission(needs: String)
    /// The kernel does not offer `feature`; the daemon goes down a rung, tests skip with the reason.
    case unsupported(feature: String, reason: String)
    /// The kernel does not load or attach this one of our BPF programs.
    case refused(program: String, reason: String)
    /// A system or libbpf call on `object` failed with `errno`.
    case system(call: String, object: String, errno: Int32)
    /// The kernel gave something that does not have the shape we agreed on.
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

/// The one place that reads `errno`.
///
/// - Parameter number: An `errno` after which `body` is called again, as it is after `EINTR`.
/// - Throws: ``CaptureError/system(call:object:errno:)`` where `body` returns a negative number.
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
