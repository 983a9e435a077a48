import CLibbpf
import Glibc
import Synchronization

/// Collects the messages that libbpf would print to stderr, so that the daemon can report why a load was refused.
enum LibbpfLog {
    private static let lines = Mutex<[String]>([])

    /// Replaces libbpf's default printer for the whole process. Idempotent.
    static func install() {
        libbpf_set_print { level, format, arguments in
            guard level != LIBBPF_DEBUG, let format, let arguments else { return 0 }
            guard let text = shim_message(format, arguments) else { return 0 }
            defer { free(text) }
            let line = Self.shortened(String(cString: text))
            LibbpfLog.lines.withLock { lines in
                if lines.count >= 200 { lines.removeFirst(100) }
                lines.append(line.trimmed)
            }
            return 0
        }
    }

    /// A verifier's log comes as one text of up to megabytes: what it is stands in its first line, and the reason at its end.
    static func shortened(_ text: String) -> String {
        let (first, last) = (256, 4_096)
        guard text.utf8.count > first + last else { return text }
        let (beginning, end) = (Array(text.utf8.prefix(first)), Array(text.utf8.suffix(last)))
        return String(decoding: beginning + Array("\n[…]\n".utf8) + end, as: UTF8.self)
    }

    static func take() -> [String] {
        self.lines.withLock { lines in
            defer { lines = [] }
            return lines
        }
    }
}

extension String {
    var trimmed: String {
        var view = self[...]
        while let last = view.last, last.isWhitespace { view.removeLast() }
        while let first = view.first, first.isWhitespace { view.removeFirst() }
        return String(view)
    }
}
