import ArgumentParser
import Glibc
import Logging
import TrafficCapture

/// Where the capture stays when the daemon ends.
enum PinPlace: Sendable, Hashable {
    /// Nowhere: the capture ends with the daemon.
    case off
    /// In ``PinDirectory/usualPath``, if there is such a place for this daemon. The service must count on a machine
    /// without a BPF file system, too.
    case auto
    case directory(String)

    /// - Returns: `nil`: the capture ends with the daemon.
    /// - Throws: ``PinError``.
    func take(logger: Logger) throws(PinError) -> PinDirectory? {
        switch self {
        case .off: return nil
        case .directory(let path): return try PinDirectory(taking: path)
        case .auto:
            do throws(PinError) {
                return try PinDirectory(taking: PinDirectory.usualPath)
            } catch  where error.isOfPlace {
                logger.warning("when the daemon ends, counting ends: \(error)")
                return nil
            }
        }
    }
}

extension PinError {
    /// Whether this machine has no such place for this user. What is in the place does not matter then.
    fileprivate var isOfPlace: Bool {
        switch self {
        case .notBPF, .absent: true
        case .system("mkdir", _, let errno): errno == EACCES || errno == EROFS
        default: false
        }
    }
}

extension PinPlace: ExpressibleByArgument {
    init?(argument: String) {
        switch argument {
        case "": return nil
        case "off": self = .off
        case "auto": self = .auto
        default: self = .directory(argument)
        }
    }

    var defaultValueDescription: String {
        switch self {
        case .off: "off"
        case .auto: "auto"
        case .directory(let path): path
        }
    }
}
