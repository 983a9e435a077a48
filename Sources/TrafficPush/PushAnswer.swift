import CLinux
import Glibc
import HTTPCalls
import TrafficDocuments
import TrafficModel

/// What came of sending a request.
enum PushAnswer: Equatable {
    /// - Parameters:
    ///   - rejectedPoints: Those that the receiver left out.
    ///   - message: What it says to that, made short.
    case delivered(rejectedPoints: UInt64, message: String)
    /// It makes no sense to send this request again.
    case refused(String)
    /// - Parameter seconds: The receiver wants so much patience.
    case failed(String, seconds: Double?)

    /// A receiver can't make the daemon wait for longer.
    static let longestWait = 3_600.0

    /// - Parameters:
    ///   - retryAfter: The field `Retry-After` (RFC 9110 section 10.2.3).
    ///   - now: Of the wall clock.
    init(status: Int, retryAfter: String?, body: [UInt8], format: PushDestination.Format, now: Timestamp) {
        switch status {
        case 200..<300:
            // `partial_success` of an ExportMetricsServiceResponse.
            let left = format == .otlp ? ProtobufFields(body).bytes(1).map { ProtobufFields($0) } : nil
            let rejected = Int64(bitPattern: left?.number(1) ?? 0)
            self = .delivered(
                rejectedPoints: UInt64(clamping: rejected),
                message: Self.short(String(decoding: left?.bytes(2) ?? [], as: UTF8.self))
            )
        case _ where Self.isTemporary(status, format):
            self = .failed("it answers \(status)", seconds: retryAfter.flatMap { Self.seconds($0, now) })
        default:
            self = .refused("it answers \(status)")
        }
    }

    /// There was no answer.
    static func failed(_ error: HTTPCallError) -> PushAnswer {
        let hint = error == .untrusted ? " (ca_file names who vouches for it)" : ""
        return .failed(Self.short("\(error)\(hint)"), seconds: nil)
    }

    /// What a receiver did that took a request without some points of it.
    ///
    /// - Parameter message: A receiver need not say why.
    static func leftOut(_ points: UInt64, _ message: String) -> String {
        "left out \(points) points" + (message.isEmpty ? "" : ": \(message)")
    }

    /// At most 200 Unicode scalars, and no control character: a receiver may send anything.
    static func short(_ text: String) -> String {
        String(String.UnicodeScalarView(text.unicodeScalars.prefix(200))).printable
    }

    /// OTLP names these four. Of other receivers, an error of their own is temporary too.
    private static func isTemporary(_ status: Int, _ format: PushDestination.Format) -> Bool {
        switch status {
        case 429, 502, 503, 504: true
        case 408, 500: format != .otlp
        default: false
        }
    }

    /// - Parameter text: Seconds, or a date.
    private static func seconds(_ text: String, _ now: Timestamp) -> Double? {
        let isNumber = !text.isEmpty && text.utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
        let seconds =
            isNumber ? Double(text) : Self.date(text).map { $0 - Double(now.nanosecondsSinceEpoch) / 1e9 }
        return seconds.map { min(max($0, 0), Self.longestWait) }
    }

    /// The form that RFC 9110 section 5.6.7 asks for: `Sun, 06 Nov 1994 08:49:37 GMT`.
    ///
    /// - Returns: Seconds since 1970, of any year.
    private static func date(_ text: String) -> Double? {
        var time = tm()
        guard let end = unsafe strptime(text, "%a, %d %b %Y %H:%M:%S GMT", &time), unsafe end.pointee == 0 else {
            return nil
        }
        return Double(unsafe timegm(&time))
    }
}
