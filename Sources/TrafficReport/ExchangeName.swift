extension Report {
    /// The name of an exchange: its endpoint. All records of an exchange have the same name.
    ///
    /// A name is one reference to texts that are made once and never change. Programs call the same endpoints again and
    /// again, and every record of an exchange carries its name.
    public struct Name: Hashable, Sendable {
        private final class Texts: Sendable {
            let method: String
            let host: String
            let route: String
            /// The record that spells the name.
            let record: [UInt8]
            let hash: Int

            init(_ method: String, _ host: String, _ route: String) {
                (self.method, self.host, self.route) = (method, host, route)
                self.record = Layout.nameRecord([method, host, route])
                self.hash = self.record.withUnsafeBytes(Layout.hash)
            }
        }

        public static let none = Name(method: "", host: "", route: "")

        private let texts: Texts

        /// - Parameters:
        ///   - method: RFC 9110 section 9.
        ///   - host: Without user and port, in lower case.
        ///   - route: A template or a redacted path, never a query.
        public init(method: String, host: String, route: String) {
            self.texts = Texts(method, host, route)
        }

        public var method: String { self.texts.method }
        public var host: String { self.texts.host }
        public var route: String { self.texts.route }

        /// The record that spells the name in a datagram.
        var record: [UInt8] { self.texts.record }

        /// Names with the same bytes have the same number, and most others have another. It is made with the name, so a
        /// table of names need not look at the texts. A hostile program can make names with equal numbers.
        public var number: Int { self.texts.hash }

        /// Whether both names share the same texts. This does not compare the texts.
        public func isIdentical(to other: Name) -> Bool { self.texts === other.texts }

        public static func == (one: Name, other: Name) -> Bool {
            one.isIdentical(to: other)
                || (one.method, one.host, one.route) == (other.method, other.host, other.route)
        }

        public func hash(into hasher: inout Hasher) {
            hasher.combine(self.method)
            hasher.combine(self.host)
            hasher.combine(self.route)
        }
    }
}

extension Report.Name: Codable {
    private enum CodingKeys: String, CodingKey {
        case method, host, route
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        self.init(
            method: try container.decode(String.self, forKey: .method),
            host: try container.decode(String.self, forKey: .host),
            route: try container.decode(String.self, forKey: .route)
        )
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(self.method, forKey: .method)
        try container.encode(self.host, forKey: .host)
        try container.encode(self.route, forKey: .route)
    }
}

extension Report.Exchange {
    public var method: String {
        get { self.name.method }
        set { self.name = .init(method: newValue, host: self.host, route: self.route) }
    }

    public var host: String {
        get { self.name.host }
        set { self.name = .init(method: self.method, host: newValue, route: self.route) }
    }

    public var route: String {
        get { self.name.route }
        set { self.name = .init(method: self.method, host: self.host, route: newValue) }
    }
}
