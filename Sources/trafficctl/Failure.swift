import Glibc
import TrafficRecording

/// Why a command ended without doing its work. The program prints one line. The exit codes follow `sysexits.h`.
enum Failure: Error, Equatable {
    /// No daemon listens there.
    case notRunning(DaemonAddress)
    case noPermission(socketPath: String)
    /// The daemon refused, with an HTTP status and its own words (RFC 9457).
    case refused(status: Int, detail: String)
    /// The connection broke, or could not be made.
    case disconnected(reason: String)
    case unreadableAnswer(reason: String)
    /// The daemon speaks another version of its JSON.
    case unknownSchema(version: Int)
    /// - Parameter error: errno.
    case notWritten(path: String, error: Int32)
    /// - Parameter error: errno.
    case notRead(path: String, error: Int32)
    /// - Parameter reason: Goes on after the path.
    case badFile(path: String, reason: String)
    case badWebhook(String)
    /// - Parameter reason: Says what has the wrong URL.
    case badURL(String)
    /// The file is there already.
    case exists(path: String)
    case notAPlainFile(path: String)
    /// It ended before a snapshot came.
    case nothingRecorded
    case recording(RecordingError)
    /// The rules of a configuration file can't be read. One line for each reason.
    case configuration([String])
    case terminal(TerminalError)

    var exitCode: Int32 {
        switch self {
        case .notRunning: 69
        case .noPermission: 77
        case .refused(let status, _): status == 403 || status == 401 ? 77 : 1
        case .badWebhook, .badURL: 64
        case .configuration: 78
        case .disconnected, .unreadableAnswer, .unknownSchema, .notWritten, .notRead, .badFile, .exists,
            .notAPlainFile, .nothingRecorded, .recording, .terminal:
            1
        }
    }
}

/// A failure of a command whose exit codes 0 and 1 say what it found, as those of `diff` do. The exit code is 2.
struct Trouble: Error {
    static let exitCode: Int32 = 2

    var failure: Failure
}

extension Failure: CustomStringConvertible {
    /// One line, with advice.
    var description: String {
        switch self {
        case .notRunning(.socket(let path)):
            "trafficd is not running at \(path); start it with: sudo trafficd run"
        case .notRunning(.network(let url)):
            "nobody listens at \(url): trafficd needs the setting listen; docs/install.md says how"
        case .noPermission(let path):
            "no permission for \(path); use sudo, or once: sudo groupadd -f trafficd && sudo usermod -aG trafficd $USER, "
                + "then start trafficd anew and log in again"
        case .refused(let status, let detail):
            detail.isEmpty ? "trafficd answered with HTTP status \(status)" : detail
        case .disconnected(let reason):
            "the connection to trafficd broke: \(reason)"
        case .unreadableAnswer(let reason):
            "can't read the answer of trafficd; if it and this trafficctl are of different builds, update the older of the two: "
                + reason
        case .unknownSchema(let version):
            "trafficd answers in schema version \(version), this trafficctl reads version 1: update the older of the two"
        case .notWritten(let path, let error):
            "can't write \(path): \(unsafe String(cString: strerror(error)))"
        case .notRead(let path, let error):
            "can't read \(path): \(unsafe String(cString: strerror(error)))"
        case .badFile(let path, let reason):
            "\(path) \(reason)"
        case .badWebhook(let reason):
            "--webhook: \(reason)"
        case .badURL(let reason):
            reason
        case .exists(let path):
            "\(path) exists: --force replaces it"
        case .notAPlainFile(let path):
            "\(path) is not a plain file: give the name of a new file, or - for standard output"
        case .nothingRecorded:
            "nothing was recorded: no snapshot came from trafficd; see trafficctl doctor"
        case .recording(let error):
            "\(error)"
        case .configuration(let lines):
            lines.joined(separator: "\n")
        case .terminal(let error):
            "\(error)"
        }
    }
}
