import Glibc
import Logging
import TrafficCapture
import TrafficConfiguration

extension PinPlace {
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
    /// Whether this machine has no such place for this user: it is missing, or somebody else has it.
    fileprivate var isOfPlace: Bool {
        switch self {
        case .notBPF, .absent, .notSafe, .foreign: true
        case .system("mkdir", _, let errno): errno == EACCES || errno == EROFS
        default: false
        }
    }
}
