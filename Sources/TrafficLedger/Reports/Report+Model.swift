import TrafficModel
import TrafficReport

// Translates the numbers of datagrams into the words of the model.

extension MessageBytes {
    init(_ message: borrowing Report.Exchange.Message) {
        self.init(
            line: UInt64(message.lineBytes),
            header: UInt64(message.headerBytes),
            cookie: UInt64(message.cookieBytes),
            body: message.bodyBytes,
            framing: message.framingBytes,
            tls: message.tlsBytes
        )
    }
}

extension EndpointRole {
    /// If the library does not say the role, the role is client, because most are.
    init(_ role: Report.Role) {
        self = role == .server ? .server : .client
    }
}

extension ExchangeOutcome {
    init(_ ending: Report.Ending) {
        self =
            switch ending {
            case .unknown: .unknown
            case .ok: .ok
            case .http4xx: .http4xx
            case .http5xx: .http5xx
            case .dns: .dns
            case .refused: .refused
            case .reset: .reset
            case .timeout: .timeout
            case .tls: .tls
            case .truncated: .truncated
            case .cancelled: .cancelled
            }
    }
}

extension HTTPVersion {
    /// `nil` if the library does not say the version.
    init?(_ version: Report.HTTPVersion) {
        switch version {
        case .unknown: return nil
        case .http1_0: self = .http1_0
        case .http1_1: self = .http1_1
        case .http2: self = .http2
        case .http3: self = .http3
        }
    }
}

extension ContentClass {
    init(_ contentClass: Report.ContentClass) {
        self =
            switch contentClass {
            case .unknown: .unknown
            case .none: .none
            case .json: .json
            case .html: .html
            case .image: .image
            case .script: .script
            case .stream: .stream
            case .form: .form
            case .text: .text
            case .other: .other
            }
    }
}

extension JoinQuality {
    /// What a library says of the quality of its own numbers.
    init(_ quality: Report.Quality) {
        self =
            switch quality {
            case .exact: .exact
            case .inferred: .inferred
            case .estimated, .unknown: .estimated
            }
    }
}

extension Report.Phases {
    /// The phases that the exchange had, in microseconds.
    var named: [ExchangePhase: UInt64] {
        var phases: [ExchangePhase: UInt64] = [:]
        phases[.dns] = self.dns.map(UInt64.init)
        phases[.connect] = self.connect.map(UInt64.init)
        phases[.tls] = self.tls.map(UInt64.init)
        phases[.send] = self.send.map(UInt64.init)
        phases[.wait] = self.wait.map(UInt64.init)
        phases[.receive] = self.receive.map(UInt64.init)
        return phases
    }
}
