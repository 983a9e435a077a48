/// What `top` keeps from one start to the next. The filter is not kept: a list that hides rows must not surprise.
public struct TopSettings: Sendable, Hashable, Codable {
    public var sort: SortKey
    public var reverse: Bool
    public var group: Grouping
    public var measure: Measure
    public var units: Units
    public var showsDetails: Bool
    public var showsEndpoints: Bool

    public init(
        sort: SortKey = .rate,
        reverse: Bool = false,
        group: Grouping = .process,
        measure: Measure = .rates,
        units: Units = .bytes,
        showsDetails: Bool = false,
        showsEndpoints: Bool = false
    ) {
        self.sort = sort
        self.reverse = reverse
        self.group = group
        self.measure = measure
        self.units = units
        self.showsDetails = showsDetails
        self.showsEndpoints = showsEndpoints
    }

    private enum CodingKeys: String, CodingKey {
        case sort, reverse, group, measure, units
        case showsDetails = "details"
        case showsEndpoints = "endpoints"
    }

    /// A field that is missing, or that has a value of another version, gets its default.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        func value<Value: Decodable>(_ key: CodingKeys, _ standard: Value) -> Value {
            (try? container.decodeIfPresent(Value.self, forKey: key)) ?? standard
        }
        let standard = TopSettings()
        self.init(
            sort: value(.sort, standard.sort),
            reverse: value(.reverse, standard.reverse),
            group: value(.group, standard.group),
            measure: value(.measure, standard.measure),
            units: value(.units, standard.units),
            showsDetails: value(.showsDetails, standard.showsDetails),
            showsEndpoints: value(.showsEndpoints, standard.showsEndpoints)
        )
    }
}
