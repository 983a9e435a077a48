import TrafficModel

/// Where the daemon sends its metrics.
public struct PushDestination: Sendable, Hashable {
    /// What a receiver reads.
    public enum Format: String, Sendable, CaseIterable {
        /// OTLP/HTTP with binary protobuf (opentelemetry.io/docs/specs/otlp).
        case otlp
        /// A JSON object in each line, one for each point.
        case ndjson

        package var mediaType: String {
            switch self {
            case .otlp: "application/x-protobuf"
            case .ndjson: "application/x-ndjson"
            }
        }
    }

    public enum Compression: String, Sendable, CaseIterable {
        case gzip, none
    }

    /// How a body is written. Destinations with the same form get the same bodies.
    package struct Form: Hashable {
        package var format: Format
        package var compression: Compression

        package init(format: Format, compression: Compression) {
            (self.format, self.compression) = (format, compression)
        }

        /// For the spool.
        package var name: String { "\(self.format.rawValue)+\(self.compression.rawValue)" }
    }

    /// `http` or `https`, with the whole path: `http://localhost:4318/v1/metrics`.
    public var url: String
    public var format = Format.otlp
    public var compression = Compression.gzip
    /// The file with further fields of each request, `Name: value` in each line. `nil`: none.
    public var headersFile: String?
    /// The certificates, in PEM, that an `https` receiver may have. `nil`: those of the system.
    public var certificateAuthorityFile: String?

    public init(url: String) { self.url = url }

    package var form: Form { Form(format: self.format, compression: self.compression) }

    /// For logs and metrics: the URL without what may be secret, which is the user, the path and the query.
    public var name: String {
        // scheme: // authority / path
        let parts = self.url.split(separator: "/", maxSplits: 3, omittingEmptySubsequences: false)
        guard parts.count > 2 else { return "" }
        let authority = parts[2].prefix { $0 != "?" && $0 != "#" }
        let host = authority.split(separator: "@", omittingEmptySubsequences: false).last ?? authority
        return "\(parts[0])//\(host)"
    }
}
