import Glibc

/// Why a file can't be replayed.
package enum RecordingError: Error, Hashable, CustomStringConvertible {
    /// - Parameter error: errno.
    case unreadable(path: String, error: Int32)
    case notAFile(path: String)
    case empty(path: String)
    case notARecording(path: String)
    /// - Parameter version: Of the format.
    case later(path: String, version: Int, trafficctl: String)
    /// The recording has no snapshot.
    case noSnapshots(path: String)
    case notCompressed(reason: String)
    /// History and alerts would take what comes and goes by the filter for growth.
    case filtered(path: String)
    /// A record that is whole says nothing that we understand.
    case unreadableRecord(number: Int, reason: String)

    package var description: String {
        switch self {
        case .unreadable(let path, let error): "can't read \(path): \(String(cString: strerror(error)))"
        case .notAFile(let path):
            "\(path) is not a plain file: a replay goes back and forth, so copy it to a file first"
        case .empty(let path): "\(path) is empty"
        case .notARecording(let path): "\(path) is no recording: make one with trafficctl record FILE"
        case .later(let path, let version, let trafficctl):
            "\(path) is of trafficctl \(trafficctl), in version \(version) of the format; this trafficctl reads version \(RecordingHeader.currentVersion): replay it with that trafficctl or a later one"
        case .noSnapshots(let path): "\(path) has no snapshots"
        case .notCompressed(let reason): "can't compress: \(reason)"
        case .filtered(let path):
            "\(path) has only what passed a filter; history and alerts need all, so record without --filter"
        case .unreadableRecord(let number, let reason): "can't read snapshot \(number) of the recording: \(reason)"
        }
    }
}
