import Foundation
import TestSupport

/// Runs curl, which counts its own bytes.
public enum Curl {
    /// One transfer.
    public struct Transfer: Sendable {
        public var requestBytes: UInt64
        public var headerBytes: UInt64
        public var bodyBytes: UInt64
        public var uploadBytes: UInt64
        public var status: UInt16
        public var connections: Int
        /// The version of the response: `1.1`, `2`; `1` for 1.0.
        public var version: String
    }

    public static func run(_ options: [String], _ urls: [String]) async throws -> [Transfer] {
        let format =
            "%{stderr}%{size_request} %{size_header} %{size_download} %{size_upload} %{response_code} %{num_connects}"
            + " %{http_version}\\n"
        let patience = "\(Program.patience.components.seconds)"
        let arguments =
            ["--silent", "--output", "/dev/null", "--max-time", patience, "--write-out", format] + options
            + urls.dropLast().flatMap { [$0, "--output", "/dev/null"] } + urls.suffix(1)
        return try await Tool.run("curl", arguments).error.split(separator: "\n").compactMap { line in
            let words = line.split(separator: " ")
            let numbers = words.prefix(6).compactMap { UInt64($0) }
            guard words.count == 7, numbers.count == 6 else { return nil }
            return Transfer(
                requestBytes: numbers[0],
                headerBytes: numbers[1],
                bodyBytes: numbers[2],
                uploadBytes: numbers[3],
                status: UInt16(numbers[4]),
                connections: Int(numbers[5]),
                version: String(words[6])
            )
        }
    }
}
